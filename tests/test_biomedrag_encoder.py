"""BiomedRAG's scorer whose encoder is fine-tuned: the job, the comparison, and a real training of a tiny encoder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from helpers import engine_install, settings, training
from helpers.engine_install import EngineError
from helpers.results import record, records
from helpers.results.outcomes import Outcomes
from helpers.vectors import Encoder
from papers.biomedrag import choices, encoder_tuning, scorer
from papers.biomedrag.arms import choose_documents
from papers.biomedrag.corpora import Corpus, Example, Triple
from papers.biomedrag.encoder_tuning import TunedEncoder, TuningLog, tuned
from papers.biomedrag.experiment import FOLDS, Lesson
from papers.biomedrag.memory import Document, Memory, Shot
from papers.biomedrag.scorer import Scorer, Taught, cosine_scorer, cross_validate, folds_of, loss_and_gradient

COLOURS = ("red", "green", "blue", "white", "black", "grey")
SHAPES = ("disc", "cube", "ring", "cone")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *COLOURS, *SHAPES, "gold", "iron", "yes", "no")


def document(text: str, label: str) -> Document:
    return Document((Shot(text, label, (), "y", False),))


def lesson_of(n: int, seed: int = 0) -> list[Taught]:
    """Inputs whose answer is likeliest after the document that tells of gold, wherever it stands.

    Another document repeats the input, so that plain cosine takes that one.
    """
    rng, taught = np.random.default_rng(seed), []
    for i in range(n):
        colour, shape, other = rng.choice(COLOURS), rng.choice(SHAPES), rng.choice(SHAPES)
        documents = [document(f"{colour} {shape}", "no"), document(f"gold {other}", "yes"), document("iron", "no")]
        order = rng.permutation(3)[: 2 if i % 5 == 4 else 3]  # inputs differ in their number of documents
        values = np.array([-3.0, -0.1, -4.0])[order]
        example = Example(f"x.{i}", f"{colour} {shape}", "yes", (Triple(str(colour), "yes", str(shape)),))
        taught.append(Taught(example, tuple(documents[row] for row in order), values))
    return taught


# ------------------------------------------------------------------------------------------- without the LLM's engine


STAND_IN = """
def main(job, folder, say):
    say(untuned=[0 for one in job["inputs"]])
    for fold in [*range(job["folds"]), None]:
        for epoch in range(job["epochs"]):
            say(step=0, fold=fold, loss=(10.0 if fold is None else fold) + epoch)
        if fold is not None:
            say(fold=fold, chosen=[len(one["documents"]) - 1 for one in job["inputs"] if one["fold"] == fold])
    folder.mkdir()
    (folder / "model.safetensors").write_text("weights")
    say(done=True, dimension=4, max_tokens=job["max_tokens"], parameters=5, texts=6, cut=0, seconds=1.0)
"""
"""Answers as `encoder_train.py` does, with losses and choices that are known: what is tested is all around it."""


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


def test_choices_and_losses_come_back_to_their_inputs_and_are_kept(stand_in, base):
    taught = lesson_of(12)
    log = tuned(taught, str(base), folds=4, seed=3, epochs=2)
    assert log.chosen == tuple(len(t.documents) - 1 for t in taught)
    assert log.untuned == (0,) * 12
    assert log.losses == (1.5, 2.5)  # the mean of the folds 0 to 3
    assert log.all_losses == (10.0, 11.0)
    written = (log.folder / training.LOG).stat().st_mtime_ns
    assert tuned(taught, str(base), folds=4, seed=3, epochs=2) == log
    assert (log.folder / training.LOG).stat().st_mtime_ns == written
    assert tuned(taught, str(base), folds=4, seed=3, epochs=2, objective="kl").folder != log.folder
    (base / "config.json").write_text('{"another": 1}')
    assert tuned(taught, str(base), folds=4, seed=3, epochs=2).folder != log.folder


def test_an_encoder_that_no_hub_gives_is_an_error_that_says_so(stand_in, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EngineError, match=r"(?s)encoder with nobody/none.*no model hub gave a model of that name"):
        tuned(lesson_of(5), "nobody/none")
    assert not [path for path in (tmp_path / "encoders").iterdir() if path.is_dir()]


def test_a_machine_without_torch_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(encoder_tuning, "ENCODERS", tmp_path)
    monkeypatch.setattr(engine_install, "choose_engine", lambda model: ("llamacpp", "a test"))
    with pytest.raises(EngineError, match="Set LLM_ENGINE=vllm"):
        tuned(lesson_of(5), "a base")


@pytest.mark.parametrize(
    ("wrong", "named"), [({"rate": 0.0}, "rate"), ({"epochs": 0}, "epochs"), ({"objective": "best"}, "objective")]
)
def test_a_setting_that_cannot_be_is_named(wrong, named):
    with pytest.raises(ValueError, match=named):
        tuned(lesson_of(5), "a base", **wrong)


def test_fewer_inputs_than_folds_are_an_error():
    with pytest.raises(ValueError, match="5 folds need at least as many inputs; found 3"):
        tuned(lesson_of(3), "a base")


def test_the_folds_are_those_of_the_other_scorers(monkeypatch):
    held_out = []

    def train(inputs, *more, **how):
        held_out.append(11 - len(inputs))
        return cosine_scorer(2)

    monkeypatch.setattr(scorer, "train", train)
    x = [np.array([1.0, 0.0])] * 11
    cross_validate(x, [np.eye(2)] * 11, [np.zeros(2)] * 11, objectives=["kl"], epochs=0)
    assert held_out == np.bincount(folds_of(11, FOLDS, 0)).tolist()


class Counts(Encoder):
    """Vectors by how often a text has one of two words."""

    name = engine = digest = "counts"
    dimension, max_tokens = 2, 100

    def __init__(self, *words: str) -> None:
        self.words = words

    def _encode(self, texts, progress):
        counts = np.array([[0.1 + text.split().count(word) for word in self.words] for text in texts], np.float32)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True), self._cut(texts)

    def _cut(self, texts):
        return np.zeros(len(texts), dtype=np.bool_)


def test_a_scorer_with_an_encoder_of_its_own_chooses_by_it():
    rows = [Example(str(i), text, label, ()) for i, (text, label) in enumerate([("a a b", "L"), ("c", "M")])]
    memory = Memory.build(rows, {"L": "a", "M": "c"}, Counts("a", "c"), words=5)
    asked = [Example("x", "a b b", "L", ())]
    by_memory, by_own = (
        choose_documents(memory, Scorer(np.eye(2), encoder=encoder), asked)[0]
        for encoder in (None, Counts("zero", "L"))
    )
    documents = memory.candidates(["a b b"])[0]
    assert by_memory in documents
    assert by_own == min(documents, key=lambda d: d.text.split().count("L"))


# ------------------------------------------------------------------------------------------------ beside the others


def taught_lesson(*, with_tuned: bool) -> Lesson:
    taught = lesson_of(40)
    encoder = Counts("gold", "red")
    x = list(encoder.encode([t.example.text for t in taught]))
    d = [encoder.encode([document.text for document in t.documents]) for t in taught]
    choices = cross_validate(x, d, [t.loglikelihoods for t in taught], epochs=5)
    if not with_tuned:
        return Lesson(tuple(taught), choices, cosine_scorer(2), {"likelihoods": 1.0, "training": 1.0}, 120)
    log = TuningLog(
        folder=Path("e"),
        sha256="ab" * 32,
        base="a base",
        settings={"objective": "kl"},
        chosen=tuple(int(np.argmax(t.loglikelihoods)) for t in taught),
        untuned=tuple(int(row) for row in choices.rows["cosine"]),
        losses=(2.0, 1.0),
        all_losses=(2.0, 0.9),
        dimension=2,
        max_tokens=256,
        parameters=5,
        texts=6,
        cut=0,
        seconds=3.0,
    )
    own = Scorer(np.eye(2), encoder=encoder)
    seconds = {"likelihoods": 1.0, "training": 1.0, "fine-tuning": 3.0}
    return Lesson(tuple(taught), log.beside(choices, taught), own, seconds, 120, log)


@pytest.fixture
def run():
    return record.start(notebook="07_biomedrag_triples", paper="biomedrag", profile="smoke", parameters={})


@pytest.mark.parametrize("with_tuned", [False, True])
def test_a_fine_tuned_encoder_is_in_the_same_comparison(run, tmp_path, with_tuned: bool):
    lesson = taught_lesson(with_tuned=with_tuned)
    corpus = Corpus("GIT", "triples", (), (), (), {})
    out = Outcomes(choices.chosen(run, corpus, lesson), labels=choices.SCORERS, draws=500)
    assert out.score("shows_label", "best").value > out.score("shows_label", "cosine").value
    assert ("tuned" in out.arms) == ("encoder fine-tuned" in choices.shown(out, "GIT").html) == with_tuned
    if with_tuned:
        # it learned the teacher's choice, which plain cosine and that encoder before do not make
        assert out.score("log_likelihood", "tuned").value == out.score("log_likelihood", "best").value
        first, second = out.against([("tuned", "cosine"), ("untuned", "cosine")], "log_likelihood")
        assert first.p < 0.05
        assert second.test.difference == 0
    choices.report_lesson(run, "GIT", lesson)
    saved = records.load(run.save(tmp_path / "record.json"))
    assert ("a base, fine-tuned" in {model.name for model in saved.provenance.models}) == with_tuned


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
    batch = scorer._padded(unit[0], unit[1:], np.float64)
    taught = np.where(batch.mask, -rng.exponential(2, size=batch.mask.shape), -np.inf)
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
        "taught": taught.tolist(),
    }
    training.prepare(str(base))
    told = training.run(script, job, tmp_path / "out", doing="compare losses", total=0)[:-1]
    assert [line["objective"] for line in told] == objectives
    p = scorer._softmax(np.where(batch.mask, cosines, -np.inf), 0.3)
    for line in told:
        loss, _ = loss_and_gradient(np.eye(5), batch, taught, line["objective"], 0.3)
        _, slope = scorer._objective(p, taught, batch.mask, line["objective"], 0.3)
        assert line["loss"] == pytest.approx(loss, rel=1e-9)
        assert np.allclose(line["gradient"], np.where(batch.mask, slope, 0) / len(p), atol=1e-9)


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
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    words.save(str(folder / "tokenizer.json"))
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special}))
    layer, dense = "encoder.layer.0.", {"pooler.dense": (size, size)}
    dense |= {f"{layer}attention.self.{part}": (size, size) for part in ("query", "key", "value")}
    dense |= {f"{layer}attention.output.dense": (size, size), f"{layer}intermediate.dense": (wide, size)}
    dense |= {f"{layer}output.dense": (size, wide)}
    rows = {"word": len(WORDS), "position": positions, "token_type": 2}
    weights = {f"embeddings.{kind}_embeddings": (n, size) for kind, n in rows.items()} | dense
    rng = np.random.default_rng(seed)
    tensors = {f"{name}.weight": rng.normal(scale=0.3, size=shape) for name, shape in weights.items()}
    tensors |= {f"{name}.bias": np.zeros(shape[0]) for name, shape in dense.items()}
    for norm in ("embeddings", f"{layer}attention.output", f"{layer}output"):
        tensors |= {f"{norm}.LayerNorm.weight": np.ones(size), f"{norm}.LayerNorm.bias": np.zeros(size)}
    # the format: length of the header, header with the place of each tensor, tensors
    header, at = {}, 0
    for name, tensor in tensors.items():
        end = at + 4 * tensor.size
        header[name], at = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [at, end]}, end
    told = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(told).to_bytes(8, "little") + told)
        file.writelines(tensor.astype(np.float32).tobytes() for tensor in tensors.values())
    return folder


@pytest.mark.engine
def test_an_encoder_learns_what_the_teacher_prefers(tmp_path, monkeypatch, vllm):
    monkeypatch.setattr(encoder_tuning, "ENCODERS", tmp_path / "encoders")
    base, taught = tiny_bert(tmp_path / "base"), lesson_of(40)
    log = tuned(taught, str(base), objective="kl", folds=2, epochs=6, rate=1e-2, batch=8)
    assert log.losses[-1] < 0.3 * log.losses[0]
    best = np.array([int(np.argmax(t.loglikelihoods)) for t in taught])
    assert (np.array(log.untuned) == best).mean() < 0.3
    assert (np.array(log.chosen) == best).mean() > 0.9

    # unseen inputs, one text too long for the model's 16 positions
    new = lesson_of(6, seed=1)
    texts = [*(text for t in new for text in (t.example.text, *(d.text for d in t.documents))), "red " * 20]
    encoder = TunedEncoder(log)
    vectors = encoder.encode(texts, progress=False)
    assert encoder.truncated == encoder.count_truncated(texts) == 1
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    start = 0
    for t in new:
        n = len(t.documents)
        assert log.scorer().choose(vectors[start], vectors[start + 1 : start + 1 + n]) == t.loglikelihoods.argmax()
        start += n + 1
