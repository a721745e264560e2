"""Equations that every part of Plait is tested with, and small sizes to instantiate them.

A model is the text of ``plait.Model``. Sizes go by visible index name, ranks by latent index name; they differ wherever
they can, so that a swapped axis does not go unnoticed. Every relation has fewer than 3000 cells.
"""

import re

MODELS: dict[str, str] = {
    # CP
    "matrix": "X[i,j] = A[i,r] B[j,r]",
    "cp3": "X[i,j,k] = A[i,r] B[j,r] C[k,r]",
    "cp4": "X[i,j,k,l] = A[i,r] B[j,r] C[k,r] D[l,r]",
    "cp5": "X[i,j,k,l,m] = A[i,r] B[j,r] C[k,r] D[l,r] E[m,r]",
    "cp3_weighted": "X[i,j,k] = w[r] A[i,r] B[j,r] C[k,r]",
    "nmf_order": "X[i,j] = W[i,r] H[r,j]",
    "cp3_mixed_order": "X[i,j,k] = A[r,i] B[j,r] C[r,k]",
    "vector": "X[i] = A[i,r] w[r]",
    "two_groups": "X[i,j,k,l] = A[i,r] B[j,s] C[k,r] D[l,s]",
    # Tucker, trains, cores
    "tucker": "X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]",
    "tucker2": "X[i,j,k] = A[i,p] B[j,q] G[p,q,k]",
    "tucker_mixed_order": "X[k,i,j] = G[r,p,q] A[p,i] B[j,q] C[r,k]",
    "tri_factor": "X[i,j] = A[i,p] G[p,q] B[j,q]",
    "two_cores": "X[i,j] = A[i,q] P[q,r] G[r,q] B[j,r]",
    "train": "X[i,j,k,l] = A[i,p] B[p,j,q] C[q,k,r] D[r,l]",
    "block_term": "X[i,j,k] = A[i,r,s] B[j,r,s] C[k,r]",
    # other shapes of factor
    "scalar": "X[i,j] = c[] A[i,r] B[j,r]",
    "bias": "X[i,j] = b[i] A[i,r] B[j,r]",
    "two_visible": "X[i,j,k] = H[i,k,r] B[j,r]",
    "two_visible_mixed_order": "X[i,j,k] = H[k,r,i] B[r,j]",
    "lone_latent": "X[i,j] = A[i,r,s] B[r,j]",
    "sums_only": "X[i,j] = A[i,r] B[j,s]",
    "disconnected": "X[i,j,k,l] = A[i,r] B[j,r] C[k,s] D[l,s]",
    "disconnected_vector": "X[i,j,k] = A[i,r] B[j,r] d[k]",
    "rank_one": "X[i,j] = a[i] b[j]",
    "no_index": "X[] = c[] d[]",
    "no_index_latent": "X[] = c[] v[r] w[r]",
    # couplings
    "coupled_cp_matrix": """
        X1[i,j,k] = A[i,r] B[j,r] C[k,r]
        X2[j,m] = B[j,r] D[m,r]
    """,
    "coupled_chain": """
        X1[i,j] = A[i,r] B[j,r]
        X2[j,k] = B[j,r] C[k,r]
        X3[l,k] = D[r,l] C[k,r]
    """,
    "coupled_paper": """
        X1[i,j,k] = A[i,r] B[j,r] C[k,r]
        X2[i,m] = A[i,r] D[m,r]
        X3[j,n] = B[j,r] E[n,r]
    """,
    "coupled_tucker": """
        X1[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]
        X2[i,l] = A[i,p] D[l,p]
        X3[j] = B[j,q] w[q]
    """,
    "coupled_core": """
        X1[i,j] = A[i,p] G[p,q] B[j,q]
        X2[k,l] = C[p,k] G[p,q] D[l,q]
    """,
    "coupled_bias": """
        X1[i,j] = b[i] A[i,r] B[j,r]
        X2[k,i] = C[k,s] b[i] e[s]
    """,
    "coupled_scalar": """
        X1[i,j] = c[] A[i,r] B[j,r]
        X2[] = c[] d[]
    """,
    "friends": """
        visits[user,place,activity] = U[user,r] P[place,r] T[activity,r]
        friends[user,friend] = U[user,r] F[friend,r]
        friend: user
    """,
    "friends_two_names": """
        visits[user,place] = U[user,r] P[place,r]
        likes[activity,friend] = T[activity,r] U[friend,r]
        friends[friend,user] = U[user,r] F[friend,r]
        friend: user
    """,
}

# Equations that are sums of products. The factors of GIVEN are given: V in terms with others, N alone or with a weight.
SUMS: dict[str, str] = {
    "cp3_bias": "X[i,j,k] = A[i,r] B[j,r] C[k,r] + b[i]",
    "pairwise": "X[i,j,k] = A[i,r] T[k,r] + B[j,s] W[k,s] + a[i] b[j] c[k]",
    "shared_factor": "X[i,j,k] = A[i,r] B[j,r] C[k,r] + D[j,r] A[i,r]",
    "same_latent": "X[i,j,k] = A[i,r] B[j,r] + C[j,r] D[k,r]",
    "tucker_cp": "X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r] + D[i,r] E[j,r] C[k,r]",
    "train_background": "X[i,j,k,l] = A[i,p] B[p,j,q] C[q,k,r] D[r,l] + c[]",
    "two_backgrounds": "X[i,j] = c[] + A[i,r] B[r,j] + b[j] d[]",
    "given_in_terms": "X[i,j,k] = V[i,k] A[i,r] B[j,r] + C[j,s] D[k,s] + b[k] V[i,k]",
    "given_alone": "X[j,i] = N[i,j] + A[i,r] B[j,r]",
    "given_weighted": "X[i,j] = A[i,r] B[j,r] + w[] N[i,j]",
    "scalars": "X[] = c[] + d[]",
    "coupled_sum": """
        X1[i,j,k] = A[i,r] B[j,r] C[k,r] + b[j]
        X2[j,m] = B[j,r] D[m,r]
        X3[j,l] = E[l,s] F[j,s] + b[j] N[l]
    """,
}

# Factors that stand twice in a term. The diagonal of such a relation is never observed.
DOUBLED: dict[str, str] = {
    "symmetric": """
        friends[user,friend] = U[user,r] U[friend,r]
        friend: user
    """,
    "symmetric_weighted": """
        friends[friend,user] = w[r] U[user,r] U[friend,r] + c[]
        friend: user
    """,
    "symmetric_evidence": """
        friends[user,friend] = U[user,r] U[friend,r] + w[] N[user,friend]
        friend: user
    """,
    "symmetric_coupled": """
        visits[user,place] = U[user,r] P[place,r] + b[place]
        friends[user,friend] = U[user,r] U[friend,r]
        friend: user
    """,
    "rescal": """
        X[user,k,friend] = A[user,a] G[a,k,b] A[friend,b]
        friend: user
    """,
    "rescal_bias": """
        X[user,friend,k] = A[user,a] G[a,k,b] A[friend,b] + A[user,a] B[k,a]
        friend: user
    """,
    "transposed": """
        X[user,friend] = A[user,r] B[friend,r] + A[friend,r] B[user,r]
        friend: user
    """,
}

GIVEN = ("V", "N")

# Sizes of the visible indices. Axes declared to be the same have the same size.
SIZES: dict[str, int] = {
    "i": 5,
    "j": 4,
    "k": 3,
    "l": 6,
    "m": 2,
    "n": 7,
    "user": 6,
    "friend": 6,
    "place": 5,
    "activity": 3,
}

# Ranks of the latent indices. Those that a factor which stands twice has in both its places are equal.
RANKS: dict[str, int] = {"p": 2, "q": 4, "r": 3, "s": 2, "a": 2, "b": 2}


def _exposed(text: str, *, swap: bool) -> str | None:
    """Multiply the first relation by V over its first and last index; None if it has no index."""
    first, *rest = text.strip().splitlines()
    left = re.match(r"\w+\[([^]]*)\]", first.strip())
    assert left is not None
    names = [name.strip() for name in left[1].split(",") if name.strip()]
    if not names:
        return None
    over = [names[0], names[-1]] if len(names) > 1 else names
    if swap:
        over.reverse()
    return "\n".join([f"{first.strip()} V[{','.join(over)}]", *rest])


# The same models with a given factor V (an exposure) over one or two visible indices of the first relation, in either
# order. Only the models whose first relation has an index.
EXPOSED: dict[str, str] = {
    name: text
    for n, (name, plain) in enumerate(MODELS.items())
    if (text := _exposed(plain, swap=n % 2 == 1)) is not None
}

# Models in which the given V has an index that no other factor has.
ONLY_EXPOSED: dict[str, str] = {
    "only_v_last": "X[i,j,k] = A[i,r] B[j,r] V[i,k]",
    "only_v_first": "X[k,i,j] = A[i,r] B[j,r] V[k]",
    "only_v_tucker": "X[i,j,k,m] = A[i,p] B[j,q] C[k,r] G[p,q,r] V[m,k]",
    "one_factor": "X[i,j] = a[i] V[i,j]",
    "one_scalar": "X[i,j] = c[] V[j,i]",
}
