"""Predict tags of artists by users: 186,479 links in a tensor of 2 · 10^11 cells, 60 % of them hidden.

Data: HetRec 2011 Last.fm (GroupLens), as Parquet, in a folder: python examples/lastfm.py FOLDER
"""

import sys
from pathlib import Path

import plait

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "data" / "lastfm"
if not folder.is_dir():
    print(f"skipped: there is no folder {folder} with the Last.fm data.")
    sys.exit()

table = plait.read(folder / "user_tag_artist_rels.parquet")
tags = table.select(user="sourceNodeId", artist="targetNodeId", tag="tagID").unique(maintain_order=True)

# There are too many cells to list: hide links, and reduce the weight of zeros by the same fraction.
train, test = plait.train_test_split(tags, "tags", fraction=0.6, by="thinned_links", seed=0)
MODELS = {
    "popularity": ("tags[user, artist, tag] = u[user] a[artist] t[tag]", None),
    "CP, rank 10": ("tags[user, artist, tag] = U[user, r] A[artist, r] T[tag, r]", 10),
}
for name, (equation, rank) in MODELS.items():
    fit = plait.fit(equation, {"tags": train}, rank=rank, seed=0, max_iter=50)
    metrics = plait.evaluate(fit, "tags", test)
    easy, hard = metrics["roc_auc_uniform"], metrics["roc_auc_corrupt_artist"]
    print(f"{name}: AUC {easy:.3f} against any cell, {hard:.3f} against another artist")

print(fit.top("tags", 3, given={"user": 2}).select("artist", "tag", "mean"))
