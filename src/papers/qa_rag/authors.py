"""The authors' own prompts as arms of notebooks 16 and 17: read from their released code, see `resources.authors_code`.

Their scoring agent gets an answer, not a number, as the example of a reply, and its message holds no question but the
example's (`calculate_scores_agent`: `input_text` is not used). It is asked so here too.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from helpers.completions import Message
from helpers.llm import LLM
from papers.qa_rag.answers import Arm, Asking, Excerpt, answering
from papers.qa_rag.data import Data, Question
from papers.qa_rag.rerankers import scoring_agent as agent
from papers.qa_rag.retrieval import Query, Reranker, asked_queries
from papers.qa_rag.search import Searcher
from resources.authors_code import Code

MAIN, MODEL = "qa_rag/code/main.py", "qa_rag/code/model.py"
MORE = 2  # further questions of multiquery in `main.py`; the paper has three
LABELS = {
    "authors_agent": "Scoring agent, authors' prompt",
    "authors_prompt": "QA-RAG, authors' prompt and example",
}
TOLD = ", authors' prompt"


def _messages(code: Code, function: str, **values: str) -> list[Message]:
    return [
        {"role": role, "content": content.format(**values)}
        for role, content in code.messages(function)
    ]


def written_queries(
    model: LLM, code: Code, questions: Sequence[Question], multiquery_tokens: int, hyde_tokens: int
) -> dict[str, dict[str, Query]]:
    """Queries of multiquery and HyDE by the authors' prompts, as `retrieval.written_queries` has them by others."""
    task = code.assigned("sys_mess", "generate_additional_questions")[0].format(
        unique_num=str(MORE)
    )
    more = [
        _messages(code, "generate_additional_questions", sys_mess=task, original_question=q.text)
        for q in questions
    ]
    hyde = [_messages(code, "generate_hyde", question=q.text) for q in questions]
    return {
        "multi_authors": asked_queries(
            model, questions, more, multiquery_tokens, f"multiquery{TOLD}", MORE
        ),
        "hyde_authors": asked_queries(model, questions, hyde, hyde_tokens, f"HyDE{TOLD}"),
    }


def hypothetical(
    model: LLM, code: Code, questions: Sequence[Question], max_tokens: int
) -> dict[str, dict[str, Query]]:
    """The fine-tuned model's answers to the authors' message; its adapter was trained with other words."""
    asked = [_messages(code, "return_finetuned_answer", question=q.text) for q in questions]
    return {
        "tuned_authors": asked_queries(
            model, questions, asked, max_tokens, f"hypothetical answers{TOLD}"
        )
    }


def scoring_agent(searcher: Searcher, model: LLM, code: Code) -> Reranker:
    """The released scoring agent: of each passage it sees the window that is nearest to the question, and the title."""
    asked = code.assigned(
        "system_message_for_question", "calculate_top_contexts_for_single_question"
    )[0].format()
    question, answer = (code.assigned(name)[0].format() for name in ("EX_QUESTION", "EX_ANSWER"))

    def prompt(_question: str, excerpt: str, title: str) -> list[Message]:
        # langchain's text of a Document
        document = f"page_content={excerpt.strip()!r} metadata={ {'source': title}!r}"
        values = {
            "system_message": asked,
            "EX_QUESTION": question,
            "EX_ANSWER": answer,
            "template": document,
        }
        return _messages(code, "calculate_scores_agent", **values)

    return agent(searcher, model, prompt, TOLD)


_LINE = "-" * 50 + "\n"


def answer_prompt(
    codes: Mapping[str, Code], question: str, shown: Sequence[Excerpt]
) -> list[Message]:
    """The released answer prompt with its example; laid out as `generate_final_template_without_score` does it."""
    main, model = codes[MAIN], codes[MODEL]
    context = model.with_fields("get_full_context_by_index", "question", "content", "source")
    task, asked, answer = (
        main.assigned(f"{name}_fdaexpert")[0].format()
        for name in ("default_prompt", "question_example", "answer_example")
    )
    parts = [
        context.format(question=question, content=e.text, source=e.passage.document).strip()
        for e in shown
    ]
    final = f"{task}\n\nQuestion: {question}\n{_LINE}"
    final += "".join(f"{_LINE}Num.{number} {part}\n" for number, part in enumerate(parts, start=1))
    return _messages(
        model,
        "get_answer_without_score",
        question_example=asked,
        answer_example=answer,
        final_template=final,
    )


def answers(
    llm: LLM, codes: Mapping[str, Code], data: Data, characters: int, max_tokens: int
) -> dict[str, Asking]:
    """An arm that answers by the released prompt from the passages of QA-RAG, cut as for the other arms.

    There is none without the codes, which could then not be fetched.
    """
    arm = Arm(LABELS["authors_prompt"], "qa_rag")
    prompt = partial(answer_prompt, codes)
    ask = answering(llm, arm, data, characters=characters, max_tokens=max_tokens, prompt=prompt)
    return {"authors_prompt": ask} if codes else {}
