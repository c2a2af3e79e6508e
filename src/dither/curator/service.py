"""The service behind the socket: from a document of a call to the document of its reply.

Token, role and grants are looked up for every call. What leaves is a result, an error of dither, or
one constant sentence for a fault: its kind and line go to the curator's standard error.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from dither.curator.dataset import ServedDataset
from dither.curator.login_calls import LoginCalls
from dither.curator.page_calls import PAGE_CALLS, serve_page_call
from dither.curator.saved_questions import SavedQuestions
from dither.curator.schedule import READING_GRID_S, await_tick
from dither.curator.signed_acts import do_signed_act, read_limit_head
from dither.errors import DitherError, RefusedError
from dither.identity import Authority, Principal
from dither.protocol import act_messages, documents, messages
from dither.protocol.errors import FaultError, ProtocolError, report_fault
from dither.rules import PrivacyRule

LOGIN_GRID_S = 1.0
"""Logins leave at whole seconds: checking a password takes longer the busier the curator is."""

LEDGER_NOT_USABLE = (
    "the ledger of this dataset cannot be used now: the data steward runs 'dither ledger verify "
    "CATALOG' on the curator's machine, which says why"
)
_RULES_OF_THE_LEDGER = (PrivacyRule.ROLLBACK, PrivacyRule.DURABLE)


class CuratorService:
    """The datasets of one curator, and who may do what with them."""

    def __init__(
        self,
        datasets: Iterable[ServedDataset],
        authority: Authority,
        questions: SavedQuestions,
    ) -> None:
        self._datasets = {dataset.name: dataset for dataset in datasets}
        self._authority = authority
        self._doors = LoginCalls(authority)
        self._questions = questions

    def check_epochs(self) -> None:
        """Raise FencedError where another curator has taken a ledger over."""
        for dataset in self._datasets.values():
            dataset.check_epoch()

    def reply(self, document: Any) -> dict[str, Any]:
        """The reply to one call."""
        number = _read_number(document)
        try:
            result = self._serve(document)
        except DitherError as error:
            return _write_reply(number, error=documents.write_error(_hide_ledger(error)))
        except Exception as error:
            report_fault(error)
            return _write_reply(number, error=documents.write_error(FaultError()))
        return _write_reply(number, result=result)

    def _serve(self, document: Any) -> BaseModel:
        dataset = None
        is_login = False
        try:
            frame = _read_frame(document)
            is_login = isinstance(frame.call, act_messages.LogIn)
            outcome = self._serve_account(frame)
            if outcome is not None:
                return outcome
            principal, dataset = self._find_dataset(frame)
        finally:
            if dataset is None and self._keeps_schedule:
                await_tick(LOGIN_GRID_S if is_login else READING_GRID_S)
        return dataset.serve(frame.call, principal, partial(self._authorize, frame))

    @property
    def _keeps_schedule(self) -> bool:
        return any(dataset.keeps_schedule for dataset in self._datasets.values())

    def _serve_account(self, frame: messages.CallFrame) -> BaseModel | None:
        """The result of a call about accounts or limits; None where it is about data.

        Such calls do not wait for a slot. They leave on a grid: how long one takes would else tell
        how busy the curator is with a question.
        """
        session = self._doors.serve(frame.call)
        if session is not None:
            return session
        if isinstance(frame.call, act_messages.LogOut):
            return self._doors.log_out(self._authority.verify(frame.token))
        if isinstance(frame.call, messages.ListDatasets):
            names = self._authority.list_datasets(self._authority.verify(frame.token))
            return messages.DatasetNames(names=[name for name in names if name in self._datasets])
        if isinstance(frame.call, (act_messages.ReadHead, act_messages.SubmitAct)):
            return self._serve_limits(frame, frame.call)
        if isinstance(frame.call, PAGE_CALLS):
            principal, _ = self._find_dataset(frame)
            return serve_page_call(frame.call, principal, self._questions, self._authority)
        return None

    def _serve_limits(
        self, frame: messages.CallFrame, call: act_messages.ReadHead | act_messages.SubmitAct
    ) -> BaseModel:
        """What an act on limits must name, or the outcome of a signed one."""
        principal, dataset = self._find_dataset(frame)
        principal.check_limits()
        if isinstance(call, act_messages.ReadHead):
            return read_limit_head(dataset, self._authority.acts)
        return do_signed_act(call.signed, dataset, self._authority.acts)

    def _find_dataset(self, frame: messages.CallFrame) -> tuple[Principal, ServedDataset]:
        """Who asks, and the dataset; one refusal where the asker may do nothing there."""
        principal = self._authorize(frame)
        if frame.dataset not in self._datasets:
            raise ProtocolError(
                "this dataset is not served here: the steward runs 'dither curator CATALOG'"
            )
        return principal, self._datasets[frame.dataset]

    def _authorize(self, frame: messages.CallFrame) -> Principal:
        """Who sends a frame, by the tokens and grants of this moment."""
        return self._authority.authorize(self._authority.verify(frame.token), frame.dataset)


def _hide_ledger(error: DitherError) -> DitherError:
    """The error as askers may see it: where the ledger lies, and how long it is, is not theirs."""
    if not isinstance(error, RefusedError) or error.rule not in _RULES_OF_THE_LEDGER:
        return error
    report_fault(error)
    return RefusedError(LEDGER_NOT_USABLE, rule=PrivacyRule.DURABLE)


def _read_frame(document: Any) -> messages.CallFrame:
    try:
        return messages.CallFrame.model_validate(document)
    except ValidationError as error:
        raise ProtocolError(_describe_problem(error)) from None


def _read_number(document: Any) -> int:
    number = document.get("number") if isinstance(document, dict) else None
    return number if type(number) is int and 0 <= number < 2**53 else 0


def _write_reply(number: int, **content: BaseModel) -> dict[str, Any]:
    """A reply as a tree for canonical JSON."""
    written = {name: part.model_dump() for name, part in content.items()}
    return {"v": messages.VERSION, "number": number, "result": None, "error": None} | written


def _describe_problem(error: ValidationError) -> str:
    """Where the first problem of a message is; nothing that it holds is repeated."""
    first = error.errors(include_input=False, include_context=False)[0]
    path = ".".join(str(step) for step in first["loc"][:8])
    return f"not a message of protocol version {messages.VERSION}: {path or 'it'}: {first['type']}"
