"""As a pandas user would write it: a frame of triples in, a frame of judged triples out."""

import pandas as pd

import doxa

triples = pd.read_csv("demo/data/train.tsv", sep="\t")[["head", "relation", "tail"]]
triples.columns = ["subject", "predicate", "object"]
model = doxa.fit(triples, score="translation", dimension=64, scale=1.5, epochs=10)

doubtful = pd.DataFrame({"subject": ["Kyoto", "Kyoto"], "predicate": "located in", "object": ["Japan", "China"]})
judged = model.judge(doubtful).to_frame()  # a polars frame; its .to_pandas() needs pyarrow
print(pd.DataFrame(judged.to_dict(as_series=False)))
