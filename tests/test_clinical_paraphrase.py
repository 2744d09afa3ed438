"""Paraphrases of the charts' sentences: what the checks refuse, and that the kept file holds what it says."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from papers.clinical_notes import paraphrase as par
from papers.clinical_notes.wording import PARAPHRASES, words
from resources.services import LlmEndpoint

ENDPOINT = LlmEndpoint("http://x/v1", "some-model", "none", "vllm", "vllm 1", "abc", 4096, 16)


@pytest.mark.parametrize(
    ("template", "answer"),
    [
        ("No {sz} since {since}.", "Since {since} there have been no {sz}."),
        ("Stop {drug} because of {why}.", "Because of {why}, {drug} is to be discontinued."),
        (
            "No change to {drug} {strength} {freq}; {how}.",
            "We keep {drug} {strength} {freq}, as it is {how}.",
        ),
        ("Had {sym} years ago with {drug}.", "In the past, {drug} had led to {sym}."),
    ],
)
def test_another_way_to_say_the_same_is_kept(template, answer):
    assert par.refusal(template, answer) is None


@pytest.mark.parametrize(
    ("template", "answer", "reason"),
    [
        ("No {sz} since {since}.", "", "no single line"),
        ("No {sz} since {since}.", "None of the {sz}\nsince {since}.", "no single line"),
        ("No {sz} since {since}.", "Since {since}, no more {sz} \u2013 none.", "not plain ASCII"),
        ("No {sz} since {since}.", "There have been no {sz}.", "other names in braces"),
        ("No {sz} since {since}.", "No {sz} and no {sz} since {since}.", "other names in braces"),
        ("No {sz} since {since}.", "No {sz since {since}.", "other names in braces"),
        (
            "No {sz} since {since}.",
            "There have been none of the {sz} that came before since {since} here.",
            "too short",
        ),
        (
            "{Pt} reports {sz}, {rate}.",
            "Seen today. {Pt} speaks of {sz}, {rate}.",
            "more than one sentence",
        ),
        (
            "{Pt} takes {drug} {strength} {freq}.",
            "It is {drug} {strength} {freq} that {Pt} takes.",
            "filled in",
        ),
        (
            "Received {drug} {strength} {route} {freq} on arrival.",
            "Got {drug} {strength} by {route} {freq}.",
            "filled",
        ),
        (
            "Denies any {sz} since the last visit.",
            "He denies any {sz} since the last visit.",
            "a person",
        ),
        ("Without {sz} for months.", "Without any {sz} for 3 months.", "a new number"),
        ("Without {sz} for months.", "For weeks there has been nothing like {sz}.", "a new number"),
        ("Denies {sym}.", "Denies {sym} and nausea.", "a new drug"),
        ("Denies {sym}.", "Denies {sym} on Keppra.", "a new drug"),
        ("{Pt} reports {sz}, {rate}.", "{Pt} speaks of {sz} and auras, {rate}.", "a new drug"),
        (
            "Currently on {drug} {strength} {freq}.",
            "The tablet is {drug} {strength} {freq}.",
            "a new drug",
        ),
        ("No {sz} since {since}.", "There have been {sz} since {since}.", "other cues"),
        (
            "Increase {drug} to {strength} {freq}.",
            "Reduce {drug} to {strength} {freq}.",
            "other cues",
        ),
        ("{Relative} had {sz}.", "{Relative} never had {sz}.", "other cues"),
        ("{Pt} is not taking {drug}.", "{Pt} isn't taking {drug}.", "near"),
        ("Call if {sym} develops on {drug}.", "Call as {sym} develops on {drug}.", "other cues"),
        ("Continue {drug} {strength} {freq}.", "Continues {drug} {strength} {freq}.", "near"),
        ("Tolerates {drug} well without {sym}.", "Tolerates {drug} well, without {sym}.", "near"),
    ],
)
def test_what_says_something_else_or_nothing_new_is_refused(template, answer, reason):
    assert reason in str(par.refusal(template, answer))


def test_a_second_paraphrase_like_the_first_is_refused():
    assert "near" in str(par.refusal("Denies {sym}.", "There is no {sym}.", ["There's no {sym}."]))


def test_no_sentence_is_its_own_paraphrase():
    refusals = {template: par.refusal(template, template) for template in par.templates()}
    assert refusals
    assert set(refusals.values()) == {"near to a wording that is there"}, refusals


@given(st.text(alphabet="{}abcsz .!:", max_size=40))
def test_any_answer_is_kept_or_refused(answer):
    tidied = par.tidy(answer, "No {sz} since {since}.") if answer.strip() else ""
    assert par.refusal("No {sz} since {since}.", tidied) is not None


def test_the_model_sees_full_names_and_the_answer_gets_the_short_ones_back():
    template = "{Pt} reports {sz}, {rate}."
    shown = par.prompt(template)[-1]["content"]
    assert shown == "{Patient} reports {seizures}, {how_often}."
    assert par.tidy(f'"{shown}"\n', template) == template
    assert (
        par.tidy("{drug} {strength} {times_a_day}.", "{drug} {strength} {freq}")
        == "{drug} {strength} {freq}"
    )


def test_sifting_counts_every_answer_and_what_was_taken_out_stays_out(tmp_path):
    template = "No {sz} since {since}."
    answers = [
        (template, "Since {since} there have been no {sz}."),
        (template, "Since {since}, there have been no {sz}."),
        (template, "Not any {sz} were had since {since}."),
        (template, "All well."),
    ]
    removed = {(template, "Not any {sz} were had since {since}."): "no English"}
    sifted = par.sift(answers, removed)
    assert sifted == {
        "asked": 4,
        "refused": {"near to a wording that is there": 1, "other names in braces": 1},
        "removed": [{"template": template, "paraphrase": answers[2][1], "reason": "no English"}],
        "paraphrases": {template: ["Since {since} there have been no {sz}."]},
    }
    path = tmp_path / "p.yml"
    par.write(sifted, ENDPOINT, path)
    assert words(path).items() >= sifted.items()
    assert words(path)["made"]["sha256"] == "abc"


def test_the_kept_file_passes_the_checks_and_its_counts_add_up():
    file = words(PARAPHRASES)
    kept: list[str] = []
    for template, of in file["paraphrases"].items():
        assert template in par.templates()
        for paraphrase in of:
            assert par.refusal(template, paraphrase, kept) is None, (template, paraphrase)
            kept.append(paraphrase)
    assert len(kept) >= 20
    assert all(entry["reason"] and entry["paraphrase"] not in kept for entry in file["removed"])
    assert file["asked"] == len(kept) + sum(file["refused"].values()) + len(file["removed"])
    assert file["made"]["model"]
    assert len(file["made"]["sha256"]) == 64
