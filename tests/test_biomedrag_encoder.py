"""BiomedRAG's scorer whose encoder is fine-tuned: the job, the comparison, and a real training of a tiny encoder."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from evaluation import record, records
from helpers.llm import LLM
from helpers.vectors import Encoder
from papers.biomedrag import encoder_tuning, scorer
from papers.biomedrag.corpora import Example
from papers.biomedrag.encoder_tuning import TuningSettings, tuned
from papers.biomedrag.memory import Memory
from papers.biomedrag.retriever import Retriever, Teaching, learn
from papers.biomedrag.scorer import Scorer, mean_loss
from resources import artifacts, engine_install, settings, training
from resources.engine_install import EngineError

COLOURS = ("red", "green", "blue", "white", "black", "grey")
SHAPES = ("disc", "cube", "ring", "cone")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *COLOURS, *SHAPES, "gold", "iron", "yes", "no")


def lesson_of(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Inputs whose answer is likeliest after the document that tells of gold, wherever it stands.

    Another document repeats the input, so that plain cosine takes that one.
    """
    rng, lessons = np.random.default_rng(seed), []
    for i in range(n):
        colour, shape, other = rng.choice(COLOURS), rng.choice(SHAPES), rng.choice(SHAPES)
        documents = [f"{colour} {shape} no", f"gold {other} yes", "iron no"]
        order = rng.permutation(3)[
            : 2 if i % 5 == 4 else 3
        ]  # inputs differ in their number of documents
        values = np.array([-3.0, -0.1, -4.0])[order].tolist()
        candidates = [documents[row] for row in order]
        lessons.append(
            {"text": f"{colour} {shape}", "documents": candidates, "loglikelihoods": values}
        )
    return lessons


# ------------------------------------------------------------------------------------------- without the LLM's engine


STAND_IN = """
def main(job, folder, say):
    folder.mkdir()
    for epoch in range(job["epochs"]):
        say(step=0, loss=10.0 + epoch)
    (folder / "model.safetensors").write_text("weights")
    say(done=True, dimension=4, max_tokens=job["max_tokens"], seconds=1.0)
"""
"""Answers as `encoder_train.py` does, with losses that are known: what is tested is all around it."""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(engine_install, "engine_python", lambda engine: Path(sys.executable))
    monkeypatch.setattr(training, "prepare", lambda base: None)
    monkeypatch.setattr(training, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(encoder_tuning, "ENCODERS", tmp_path / "encoders")
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(encoder_tuning, "SCRIPT", script)
    return script


def test_an_encoder_is_trained_once_for_what_decides_it(stand_in, base, monkeypatch):
    lessons = lesson_of(12)
    tuning = TuningSettings(seed=3, epochs=2)
    encoder = tuned(lessons, str(base), tuning)
    assert encoder.losses == (10.0, 11.0)
    folder = encoder_tuning.ENCODERS / encoder.name
    written = (folder / artifacts.LOG).stat().st_mtime_ns
    assert tuned(lessons, str(base), tuning).name == encoder.name
    assert (folder / artifacts.LOG).stat().st_mtime_ns == written
    assert tuned(lessons, str(base), replace(tuning, objective="kl")).name != encoder.name
    encoder_tuning.SCRIPT.write_text(f"{STAND_IN}# a comment\n")
    assert tuned(lessons, str(base), tuning).name == encoder.name
    monkeypatch.setattr(encoder_tuning, "METHOD", "another")
    assert tuned(lessons, str(base), tuning).name != encoder.name
    (base / "config.json").write_text('{"another": 1}')
    assert tuned(lessons, str(base), tuning).name != encoder.name


def test_an_encoder_that_no_hub_gives_is_an_error_that_says_so(stand_in, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        EngineError, match=r"(?s)encoder with nobody/none.*no model hub gave a model of that name"
    ):
        tuned(lesson_of(5), "nobody/none")
    assert not [path for path in (tmp_path / "encoders").iterdir() if path.is_dir()]


def test_a_machine_without_torch_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(encoder_tuning, "ENCODERS", tmp_path)
    monkeypatch.setattr(engine_install, "choose_engine", lambda model: ("llamacpp", "a test"))
    with pytest.raises(EngineError, match="Set LLM_ENGINE=vllm"):
        tuned(lesson_of(5), "a base")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"rate": 0.0}, "rate"), ({"epochs": 0}, "epochs"), ({"objective": "best"}, "objective")],
)
def test_a_setting_that_cannot_be_is_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        tuned(lesson_of(5), "a base", TuningSettings(**wrong))


def test_no_inputs_are_an_error():
    with pytest.raises(ValueError, match="inputs"):
        tuned([], "a base")


class Counts(Encoder):
    """Vectors by how often a text has one of two words."""

    name = engine = digest = "counts"
    dimension, max_tokens = 2, 100

    def __init__(self, *words: str) -> None:
        self.words = words

    def _encode(self, texts, progress):
        counts = np.array(
            [[0.1 + text.split().count(word) for word in self.words] for text in texts], np.float32
        )
        return counts / np.linalg.norm(counts, axis=1, keepdims=True), self._find_truncated(texts)

    def _find_truncated(self, texts):
        return np.zeros(len(texts), dtype=np.bool_)


def test_a_scorer_with_an_encoder_of_its_own_chooses_by_it():
    rows = [
        Example(str(i), text, label, ())
        for i, (text, label) in enumerate([("a a b", "L"), ("c", "M")])
    ]
    memory = Memory(rows, {"L": "a", "M": "c"}, Counts("a", "c"), 5)
    examples = [Example("x", "a b b", "L", ())]
    by_memory, by_own = (
        Retriever(memory, Scorer(np.eye(2), encoder=encoder))(examples)[0]
        for encoder in (None, Counts("zero", "L"))
    )
    documents = memory.candidates(["a b b"])[0]
    assert by_memory in documents
    assert by_own == min(documents, key=lambda d: d.text.split().count("L"))


class Teacher:
    endpoint = SimpleNamespace(model="a teacher")

    def loglikelihood_many(self, prompts, label):
        return [SimpleNamespace(total=-float(len(context))) for context, _ in prompts]


def test_a_fine_tuned_encoder_is_taught_by_the_model_and_noted(monkeypatch, tmp_path):
    rows = [
        Example(f"GIT.{i}", text, label, ())
        for i, (text, label) in enumerate([("a a b", "L"), ("c", "M")])
    ]
    memory = Memory(rows, {"L": "a", "M": "c"}, Counts("a", "c"), 5)
    lessons = []

    class Tuned(Counts):
        base, losses, seconds = "a base", (2.0, 1.0), 3.0

    def tune(taught, base, settings):
        lessons.extend(taught)
        return Tuned("zero", "L")

    monkeypatch.setattr(encoder_tuning, "tuned", tune)
    run = record.start(
        notebook="07_biomedrag_triples", paper="biomedrag", profile="smoke", parameters={}
    )
    examples = [Example("GIT.x", "a b b", "L", ())]
    trained_retriever = learn(
        memory, cast(LLM, Teacher()), examples, Teaching(tuned_encoder="a base"), run=run
    )
    documents = memory.candidates(["a b b"])[0]
    assert [(lesson["text"], lesson["documents"]) for lesson in lessons] == [
        ("a b b", [d.text for d in documents])
    ]
    assert trained_retriever.scorer.losses == (2.0, 1.0)
    assert trained_retriever(examples)[0] == min(documents, key=lambda d: d.text.split().count("L"))
    saved = records.load(run.save(tmp_path / "record.json"))
    assert {model.name for model in saved.provenance.models} == {"a base, fine-tuned"}
    assert "GIT: fine-tuning the encoder" in {timing.name for timing in saved.provenance.timings}


# ----------------------------------------------------------------------------------------------- in torch, for real


@pytest.fixture
def vllm(monkeypatch):
    monkeypatch.setenv("LLM_ENGINE", "vllm")  # however much memory is free
    settings.settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.settings.cache_clear()


LOSSES = """
import importlib.util
import torch

def main(job, folder, say):
    spec = importlib.util.spec_from_file_location("encoder_train", job["script"])
    trainer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(trainer)
    for objective in job["objectives"]:
        cosines = torch.tensor(job["cosines"], dtype=torch.float64, requires_grad=True)
        taught = torch.tensor(job["taught"], dtype=torch.float64)
        loss = trainer.mean_loss(cosines, taught, objective, job["eta"])
        loss.backward()
        say(objective=objective, loss=float(loss), gradient=cosines.grad.tolist())
    say(done=True)
"""


@pytest.mark.engine
def test_the_loss_in_torch_is_that_of_the_projection(tmp_path, base, vllm):
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=(6, 5)), [rng.normal(size=(n, 5)) for n in (4, 2, 3, 4, 1, 4)]
    unit: list = [m / np.linalg.norm(m, axis=-1, keepdims=True) for m in (x, *d)]
    batch = scorer.padded(unit[0], unit[1:], np.float64)
    likelihoods = np.where(batch.mask, -rng.exponential(2, size=batch.mask.shape), -np.inf)
    cosines = np.einsum("nk,njk->nj", batch.x, batch.d)
    objectives = ["text", "code", "each", "kl"]
    script = tmp_path / "losses.py"
    script.write_text(LOSSES)
    job = {
        "base": str(base),
        "script": str(encoder_tuning.SCRIPT),
        "objectives": objectives,
        "eta": 0.3,
        "cosines": cosines.tolist(),
        "taught": likelihoods.tolist(),
    }
    training.prepare(str(base))
    lines = training.run(script, job, tmp_path / "out", doing="compare losses", total=0)[:-1]
    assert [line["objective"] for line in lines] == objectives
    masked = np.where(batch.mask, cosines, -np.inf)
    for line in lines:
        loss, slope = mean_loss(masked, likelihoods, line["objective"], 0.3)
        assert line["loss"] == pytest.approx(loss, rel=1e-9)
        assert np.allclose(line["gradient"], slope, atol=1e-9)


def tiny_bert(folder: Path, seed: int = 0) -> Path:
    """A BERT of one layer and some thousand random weights that knows `WORDS`, as Hugging Face's format has it."""
    size, wide, positions = 16, 32, 16
    folder.mkdir()
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": len(WORDS),
        "hidden_size": size,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": wide,
        "max_position_embeddings": positions,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    words = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    words.save(str(folder / "tokenizer.json"))
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special})
    )
    layer, dense = "encoder.layer.0.", {"pooler.dense": (size, size)}
    dense |= {f"{layer}attention.self.{part}": (size, size) for part in ("query", "key", "value")}
    dense |= {
        f"{layer}attention.output.dense": (size, size),
        f"{layer}intermediate.dense": (wide, size),
    }
    dense |= {f"{layer}output.dense": (size, wide)}
    rows = {"word": len(WORDS), "position": positions, "token_type": 2}
    weights = {f"embeddings.{kind}_embeddings": (n, size) for kind, n in rows.items()} | dense
    rng = np.random.default_rng(seed)
    tensors = {
        f"{name}.weight": rng.normal(scale=0.3, size=shape) for name, shape in weights.items()
    }
    tensors |= {f"{name}.bias": np.zeros(shape[0]) for name, shape in dense.items()}
    for norm in ("embeddings", f"{layer}attention.output", f"{layer}output"):
        tensors |= {
            f"{norm}.LayerNorm.weight": np.ones(size),
            f"{norm}.LayerNorm.bias": np.zeros(size),
        }
    # the format: length of the header, header with the place of each tensor, tensors
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + 4 * tensor.size
        header[name], offset = (
            {"dtype": "F32", "shape": tensor.shape, "data_offsets": [offset, end]},
            end,
        )
    header_bytes = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header_bytes).to_bytes(8, "little") + header_bytes)
        file.writelines(tensor.astype(np.float32).tobytes() for tensor in tensors.values())
    return folder


@pytest.mark.engine
def test_an_encoder_learns_what_the_teacher_prefers(tmp_path, monkeypatch, vllm):
    monkeypatch.setattr(encoder_tuning, "ENCODERS", tmp_path / "encoders")
    base = tiny_bert(tmp_path / "base")
    tuning = TuningSettings(objective="kl", epochs=6, rate=1e-2, batch=8)
    encoder = tuned(lesson_of(40), str(base), tuning)
    assert encoder.losses[-1] < 0.3 * encoder.losses[0]

    # unseen inputs, one text too long for the model's 16 positions
    new = lesson_of(6, seed=1)
    texts = [*(text for t in new for text in (t["text"], *t["documents"])), "red " * 20]
    vectors = encoder.encode(texts, progress=False)
    assert encoder.truncated == encoder.count_truncated(texts) == 1
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosine, start = Scorer(np.eye(encoder.dimension)), 0
    for t in new:
        n = len(t["documents"])
        assert cosine.choose(vectors[start], vectors[start + 1 : start + 1 + n]) == np.argmax(
            t["loglikelihoods"]
        )
        start += n + 1
