"""As a PyKEEN user would write it: train TransE's score on a dataset, evaluate by rank, predict tails."""

import doxa

training, validation, testing = (doxa.read(f"demo/data/{part}.tsv") for part in ("train", "valid", "test"))
model = doxa.fit(training, validation, score="translation", dimension=64, scale=1.5, epochs=10, seed=0)

metrics = model.evaluate(testing, tasks="entity").entity.filtered
print(f"MRR {metrics.mrr:.2f}, Hits@10 {metrics.hits[10]:.2f}")

predictions = model.tails("Warsaw", "located in", top=3, new_only=True).to_frame()
print(predictions.select("tail", "probability"))
model.save("trained_model")
