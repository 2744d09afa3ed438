"""Several LLM servers: each model is asked where it is served, and what is not served is known before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_server import Exchange, LocalServer, chat_completion, local_server

from helpers import llm
from publish import doctor
from resources import env_file, llm_servers as module, services, settings as settings_module
from resources.llm_servers import llm_servers
from resources.services import ServiceError
from resources.settings import SettingsError, hide_secrets, settings


def serves(*models: str, key: str = "") -> Callable[[Exchange], None]:
    """A server of these models; with a key, it refuses any other."""

    def answer(exchange: Exchange) -> None:
        if key and exchange.handler.headers["Authorization"] != f"Bearer {key}":
            exchange.send({"error": {"message": "no"}}, 401)
        elif exchange.path.endswith("/models"):
            exchange.send({"data": [{"id": model} for model in models]})
        else:
            exchange.send(chat_completion(exchange.body["model"], model=exchange.body["model"]))

    return answer


@pytest.fixture
def use_servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Writes the file of servers, and the settings that name it."""
    monkeypatch.setenv("LLM_BASE_URL", "")
    monkeypatch.setattr(module, "ENV_FILE", tmp_path / ".env")
    monkeypatch.setattr(settings_module, "ENV_FILE", tmp_path / ".env")

    def name(text: str, **variables: str) -> None:
        path = tmp_path / "servers.yml"
        path.write_text(text)
        monkeypatch.setenv("LLM_SERVERS", str(path))
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        settings.cache_clear()

    yield name
    monkeypatch.undo()
    settings.cache_clear()


def answering_model(model: str, folder: Path) -> str:
    connected = llm.connect(model, exact=True, folder=folder)
    return connected.chat_many([[{"role": "user", "content": "Who?"}]], max_tokens=5)[0].text


def test_each_model_is_asked_where_it_is_served(use_servers, tmp_path):
    with local_server(serves("answerer")) as first, local_server(serves("judge")) as second:
        use_servers(f"- {{url: {second.url}}}", LLM_BASE_URL=first.url)
        assert [answering_model(model, tmp_path / model) for model in ("answerer", "judge")] == [
            "answerer",
            "judge",
        ]
        assert _asked_of(first) == {"answerer"}
        assert _asked_of(second) == {"judge"}


def _asked_of(server: LocalServer) -> set[str]:
    return {body["model"] for body in server.requests if body}


def test_a_gateway_may_have_them_all(use_servers, tmp_path):
    with local_server(serves("answerer", "judge")) as gateway:
        use_servers(f"- {{url: {gateway.url}}}")
        assert answering_model("judge", tmp_path) == "judge"


def test_a_server_is_asked_only_for_the_models_that_the_file_gives_it(use_servers):
    with local_server(serves("a", "b")) as first, local_server(serves("a", "b")) as second:
        use_servers(f"- {{url: {first.url}, models: [b]}}\n- {{url: {second.url}}}")
        assert services.llm_endpoint("a", exact=True).base_url == second.url
        assert services.llm_endpoint("b", exact=True).base_url == first.url


def test_a_key_comes_from_the_variable_that_the_file_names_and_is_never_shown(
    use_servers, tmp_path
):
    with local_server(serves("judge", key="sk-very-secret")) as server:
        (tmp_path / ".env").write_text("JUDGE_API_KEY=sk-very-secret\n")
        use_servers(f"- {{url: {server.url}, key: JUDGE_API_KEY}}")
        assert answering_model("judge", tmp_path / "store") == "judge"
        assert hide_secrets("sent sk-very-secret") == "sent (hidden)"
        assert "secret" not in repr(llm_servers())


def test_what_no_server_has_is_said_before_anything_is_asked(use_servers):
    with local_server(serves("answerer")) as first, local_server(serves("judge")) as second:
        use_servers(f"- {{url: {second.url}}}", LLM_BASE_URL=first.url)
        why = llm.why_not_served("another")
        assert "does not serve 'another'" in why
        assert first.url in why
        assert second.url in why
        assert "\n" not in why
        assert llm.why_not_served("judge") == ""
        assert llm.why_not_served("") == "This profile names no model for it."
        with pytest.raises(ServiceError, match="does not serve 'another'"):
            llm.connect("another", exact=True)


def test_a_server_that_is_away_hides_no_other(use_servers):
    with local_server(serves("judge")) as second:
        use_servers(f"- {{url: {second.url}}}", LLM_BASE_URL="http://127.0.0.1:9/v1")
        assert services.llm_endpoint("judge", exact=True).base_url == second.url
        with pytest.raises(ServiceError, match=r"127\.0\.0\.1:9/v1 cannot be reached"):
            services.llm_endpoint("answerer", exact=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {url: gpu1:8000}", "must have http:// or https://"),
        ("- {url: http://gpu1, key: sk-in-the-file}", "names the variable"),
        ("- {url: http://gpu1, key: MISSING_API_KEY}", "MISSING_API_KEY, which is not set"),
        ("- {url: http://gpu1, colour: red}", "colour"),
        ("url: http://gpu1", "valid list"),
        ("- [", "no YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(use_servers, text, message):
    use_servers(text)
    with pytest.raises(SettingsError, match=message) as error:
        llm_servers()
    assert "\n" not in str(error.value)
    assert "sk-in-the-file" not in str(error.value)


def test_a_missing_file_is_one_line(use_servers, monkeypatch):
    monkeypatch.setenv("LLM_SERVERS", "/nowhere/servers.yml")
    settings.cache_clear()
    with pytest.raises(SettingsError, match="cannot be read"):
        llm_servers()


def test_the_doctor_lists_each_role_and_whether_it_is_served(use_servers, monkeypatch):
    monkeypatch.setenv("PROFILE", "paper")
    with local_server(serves("Qwen/Qwen2.5-7B-Instruct")) as server:
        use_servers("[]", LLM_BASE_URL=server.url)
        roles = {
            (finding.part, finding.uses.partition(",")[0]): finding.hint
            for finding in doctor.findings()
            if finding.part.startswith("role: ")
        }
    assert roles["role: answerer", "Qwen/Qwen2.5-7B-Instruct"] == ""
    why = roles["role: second", "meta-llama/Llama-3.1-8B-Instruct"]
    assert why.startswith("not run: ")
    assert "does not serve" in why
    assert ("role: small", "meta-llama/Llama-2-13b-hf") in roles


def test_the_file_of_variables_is_read_as_make_reads_it(tmp_path):
    path = tmp_path / ".env"
    path.write_text("LLM_SERVERS=servers.yml\n", encoding="utf-8-sig")
    assert env_file.read_env_file(path) == {"LLM_SERVERS": "servers.yml"}
