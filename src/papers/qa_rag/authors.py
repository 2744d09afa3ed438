"""The authors' own prompts as arms of notebooks 16 and 17, read from their released code.

Their scoring agent gets an answer, not a number, as the example of a reply, and its message holds
no question but the example's (`calculate_scores_agent`: `input_text` is not used). It is asked so
here, too. See `resources.authors_code`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from helpers.llm import LLM
from papers.qa_rag.answers import AnswerFromPassages, ArmConfig, Excerpt
from papers.qa_rag.data import Data, Question
from papers.qa_rag.rerankers import ScoringAgent
from papers.qa_rag.retrieval import Query, QueryWriter
from papers.qa_rag.search import Searcher
from rag.prompts import Message
from resources.authors_code import Code

MAIN = "qa_rag/code/main.py"
MODEL = "qa_rag/code/model.py"
N_MULTIQUERY = 2
"""Further questions of multiquery in `main.py`; the paper has three."""

LABELS = {
    "authors_agent": "Scoring agent (authors' prompt)",
    "authors_prompt": "QA-RAG (authors' prompt and example)",
}
NOTE = ", authors' prompt"
"""Ends the name of a step with their prompt."""


def _messages(code: Code, function: str, **values: str) -> list[Message]:
    return [
        {"role": role, "content": content.format(**values)}
        for role, content in code.messages(function)
    ]


def written_queries(
    model: LLM, code: Code, questions: Sequence[Question], multiquery_tokens: int, hyde_tokens: int
) -> dict[str, dict[str, Query]]:
    """Write queries of multiquery and HyDE by the authors' prompts."""
    function = "generate_additional_questions"
    template = code.assigned("sys_mess", function)[0]
    task = template.format(unique_num=str(N_MULTIQUERY))
    more_prompts = []
    hyde_prompts = []
    for question in questions:
        values = {"sys_mess": task, "original_question": question.text}
        more_prompts.append(_messages(code, function, **values))
        hyde_prompts.append(_messages(code, "generate_hyde", question=question.text))
    multiquery = QueryWriter(model, multiquery_tokens, f"multiquery{NOTE}", N_MULTIQUERY)
    hyde = QueryWriter(model, hyde_tokens, f"HyDE{NOTE}")
    return {
        "multi_authors": multiquery.write(questions, more_prompts),
        "hyde_authors": hyde.write(questions, hyde_prompts),
    }


def hypothetical(
    model: LLM, code: Code, questions: Sequence[Question], max_tokens: int
) -> dict[str, dict[str, Query]]:
    """Write the fine-tuned model's answers to the authors' message.

    Its adapter was trained with other words.
    """
    prompts = [
        _messages(code, "return_finetuned_answer", question=question.text) for question in questions
    ]
    writer = QueryWriter(model, max_tokens, f"hypothetical answers{NOTE}")
    return {"tuned_authors": writer.write(questions, prompts)}


@dataclass(frozen=True)
class AgentPrompt:
    """The message of the released scoring agent.

    Attributes:
        code: Their module.
        instruction: What the agent is to do.
        example_question: The question of its example.
        example_answer: The answer of its example.
    """

    code: Code
    instruction: str
    example_question: str
    example_answer: str

    def __call__(self, _question: str, excerpt: str, title: str) -> list[Message]:
        """Build the message about one excerpt; it does not hold the question."""
        # langchain's text of a Document
        metadata = {"source": title}
        document = f"page_content={excerpt.strip()!r} metadata={metadata!r}"
        values = {
            "system_message": self.instruction,
            "EX_QUESTION": self.example_question,
            "EX_ANSWER": self.example_answer,
            "template": document,
        }
        return _messages(self.code, "calculate_scores_agent", **values)


def scoring_agent(searcher: Searcher, model: LLM, code: Code) -> ScoringAgent:
    """The released scoring agent.

    It sees of each passage the window that is nearest to the question, and the title.
    """
    function = "calculate_top_contexts_for_single_question"
    instruction = code.assigned("system_message_for_question", function)[0]
    prompt = AgentPrompt(
        code,
        instruction=instruction.format(),
        example_question=code.assigned("EX_QUESTION")[0].format(),
        example_answer=code.assigned("EX_ANSWER")[0].format(),
    )
    return ScoringAgent(searcher, model, prompt, NOTE)


_LINE = "-" * 50 + "\n"


def answer_prompt(
    codes: Mapping[str, Code], question: str, excerpts: Sequence[Excerpt]
) -> list[Message]:
    """Build the released answer prompt with its example.

    It is laid out as `generate_final_template_without_score` does it.
    """
    main, model = codes[MAIN], codes[MODEL]
    task = main.assigned("default_prompt_fdaexpert")[0].format()
    context = model.with_fields("get_full_context_by_index", "question", "content", "source")
    final = f"{task}\n\nQuestion: {question}\n{_LINE}"
    for number, excerpt in enumerate(excerpts, start=1):
        part = context.format(
            question=question, content=excerpt.text, source=excerpt.passage.document
        )
        final += f"{_LINE}Num.{number} {part.strip()}\n"
    return _messages(
        model,
        "get_answer_without_score",
        question_example=main.assigned("question_example_fdaexpert")[0].format(),
        answer_example=main.assigned("answer_example_fdaexpert")[0].format(),
        final_template=final,
    )


def answers(
    llm: LLM, codes: Mapping[str, Code], data: Data, max_characters: int, max_tokens: int
) -> dict[str, AnswerFromPassages]:
    """An arm that answers by the released prompt from the passages of QA-RAG, cut as in other arms.

    There is none without the codes, which could then not be fetched.
    """
    if not codes:
        return {}
    arm = AnswerFromPassages(
        llm,
        ArmConfig(LABELS["authors_prompt"], "qa_rag"),
        data,
        max_characters=max_characters,
        max_tokens=max_tokens,
        prompt=partial(answer_prompt, codes),
    )
    return {"authors_prompt": arm}
