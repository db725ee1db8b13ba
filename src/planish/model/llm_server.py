"""A language model behind an OpenAI-compatible HTTP interface, asked in rounds with feedback.

Source of the interface: the `chat/completions` endpoint, which llama.cpp, vLLM, Ollama and most
hosted services offer as well.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from planish.base.config import LlmConfig
from planish.base.errors import PlanishError
from planish.base.records import Outcome
from planish.model.llm_prompt import Message, Question, chat_again, chat_start, read_answer
from planish.search.protocol import Plan

_TRIES = 3
_WAIT_SECONDS = 1.0
_RETRIED = (408, 429, 500, 502, 503, 504)
_MOST_BYTES = 8 << 20
# Sent where the server takes them: some models refuse the one or the other.
_OPTIONAL = {"temperature": 0, "max_tokens": 4096}
_HISTORY = 12
# Rounds in a row without a plan that is new; then the model has nothing more to say.
_FRUITLESS = 3


class Server:
    """Asks a server; whatever keeps it from answering is a PlanishError of one line."""

    def __init__(self, url: str, model: str, config: LlmConfig, seed: int = 0) -> None:
        self._url = url.rstrip("/")
        if not self._url.endswith("/chat/completions"):
            self._url += "/chat/completions"
        self._model = model
        self._config = config
        self._optional = {**_OPTIONAL, "seed": seed}
        self._opener = urllib.request.build_opener(_NoRedirect)

    def ask(self, messages: Sequence[Message]) -> str:
        """The answer's text, empty where the model gave none."""
        failures = 0
        while True:
            try:
                return _content(self._post(self._body(messages)), self._url)
            except urllib.error.HTTPError as error:
                with error:
                    said = _message(error.read(4000).decode(errors="replace"))
                failures += 1
                if error.code == 400 and self._drop(said):
                    continue
                if error.code not in _RETRIED or failures == _TRIES:
                    raise self._refused(error.code, error.reason, said) from error
            except TimeoutError as error:
                raise self._late() from error
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", error)
                failures += 1
                if isinstance(reason, TimeoutError):
                    raise self._late() from error
                if not isinstance(reason, ConnectionResetError) or failures == _TRIES:
                    raise PlanishError(
                        f"cannot reach the language model at {self._url}: {reason}",
                        hint="is the server running, and --llm-url right?",
                    ) from error
            time.sleep(_WAIT_SECONDS * 2 ** (failures - 1))

    def _body(self, messages: Sequence[Message]) -> bytes:
        body: dict[str, Any] = {"messages": list(messages), **self._optional}
        if self._model:
            body["model"] = self._model
        return json.dumps(body).encode()

    def _drop(self, said: str) -> bool:
        """Leave out from now on what the server's message names; False where it names nothing."""
        named = [name for name in self._optional if name in said]
        for name in named:
            del self._optional[name]
        return bool(named)

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self._config.key:
            headers["Authorization"] = f"Bearer {self._config.key}"
        request = urllib.request.Request(self._url, body, headers)
        deadline = time.monotonic() + self._config.seconds
        data = b""
        with self._opener.open(request, timeout=self._config.seconds) as reply:
            # Piece by piece: a server that drips would otherwise hold us for ever.
            while piece := reply.read1(1 << 16):
                data += piece
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(data) > _MOST_BYTES:
                    raise PlanishError(f"{self._url} answers with more than {_MOST_BYTES} bytes")
        return data

    def _late(self) -> PlanishError:
        return PlanishError(
            f"the language model at {self._url} did not answer within {self._config.seconds:g} s",
            hint="give it more time with PLANISH_LLM_SECONDS",
        )

    def _refused(self, code: int, reason: str, said: str) -> PlanishError:
        hints = {
            401: "put the key into PLANISH_LLM_KEY",
            403: "put the key into PLANISH_LLM_KEY",
            404: "does the URL end as the server wants it (often in /v1), and is the model there?",
        }
        words = f": {said[:200]}" if said else ""
        return PlanishError(
            f"the language model at {self._url} answers {code} {reason}{words}",
            hint=hints.get(code, "the server's own log may say more"),
        )


class ChatPolicy:
    """Asks for recipes, and goes on asking with the outcomes of what was answered before.

    ask    the server's `ask`
    plan   turns an answer's recipe (or a line that is none) into a plan
    Plans are what the model said, be they legal or not: an evaluation answers what is not with an
    outcome, which the model is told.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Message]], str],
        question: Question,
        plan: Callable[[Any], Plan],
    ) -> None:
        self._ask = ask
        self._question = question
        self._plan = plan
        self._messages: list[Message] = []
        self._rows: list[str] = []
        self._waiting: list[Plan] = []
        self._seen: set[Plan] = set()
        self._given: dict[Plan, str] = {}

    def suggest(self, count: int) -> Sequence[Plan]:
        fruitless = 0
        while not self._waiting and fruitless < _FRUITLESS:
            self._round(count)
            fruitless += 1
        plans, self._waiting = self._waiting[:count], self._waiting[count:]
        return plans

    def observe(self, plan: Plan, outcome: Outcome) -> None:
        self._seen.add(plan)
        text = self._given.get(plan)
        if text is not None:
            result = f"{outcome.failure}: {outcome.reason}" if outcome.failure else _number(outcome)
            self._rows.append(f"{text}\n=> {result}")

    def _round(self, count: int) -> None:
        if not self._messages:
            self._messages = chat_start(self._question, count)
        else:
            self._messages.append(chat_again(self._question, count, self._rows))
        self._rows = []
        # The module and the list of passes stay; of the rounds, the last few.
        self._messages[2:] = self._messages[2:][-_HISTORY:]
        answer = self._ask(self._messages)
        self._messages.append({"role": "assistant", "content": answer})
        for item in read_answer(answer):
            plan = self._plan(item)
            if plan not in self._seen and plan not in self._given:
                self._given[plan] = str(item)
                self._waiting.append(plan)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key that was meant for one server is not carried on to another."""

    def redirect_request(self, *args: Any, **more: Any) -> None:
        return None


def _content(data: bytes, url: str) -> str:
    try:
        content = json.loads(data)["choices"][0]["message"].get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise PlanishError(
            f"{url} does not answer as an OpenAI-compatible server does",
            hint="the URL often ends in /v1",
        ) from error
    return content if isinstance(content, str) else ""


def _message(text: str) -> str:
    """The message in an error's body, or the body, as one line."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(text)["error"]["message"])
    return " ".join(text.split())


def _number(outcome: Outcome) -> str:
    return f"{outcome.value:.0f}"
