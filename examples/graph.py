"""An undirected graph: components, common neighbours, and the sum of both in one model."""

import networkx as nx

import plait

GROUPS = "met[a, b] = U[a, r] U[b, r]; b: a"
NEIGHBOURS = "met[a, b] = s[a] s[b] + w[] N[a, b]; b: a"  # s: activity of each node
BOTH = "met[a, b] = U[a, r] U[b, r] + w[] N[a, b]; b: a"

graph = nx.Graph(nx.les_miserables_graph().edges)  # who meets whom in the novel; without weights
links = plait.Relation(graph, likelihood="bernoulli")
train, test = plait.train_test_split({"met": links}, "met", fraction=0.2, seed=0, model=GROUPS)
near = plait.Exposure(plait.evidence.paths(train["met"], model=GROUPS), default=0)  # computed from the training links

for name, equation in {"groups": GROUPS, "common neighbours": NEIGHBOURS, "both": BOTH}.items():
    rank = 6 if plait.Model(equation).latent else None
    fit = plait.fit(equation, train, rank=rank, fixed={"N": near} if "N[" in equation else None, seed=0)
    metrics = plait.evaluate(fit, "met", test)
    print(f"{name:18} AUC {metrics['roc_auc']:.3f}, average precision {metrics['average_precision']:.3f}")
print(fit.top("met", 3))
