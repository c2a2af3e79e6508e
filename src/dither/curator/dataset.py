"""One dataset as the curator serves it: calls of the protocol in, results out.

Everything is derived here again from the request: price, noise, loss, key and charges. What a
gateway tells about a question is kept as a remark, and decides nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from functools import singledispatchmethod
from threading import BoundedSemaphore, Lock

from pydantic import BaseModel

from dither.canonical import digest
from dither.catalog import storage
from dither.curator.ask_log import AskLog
from dither.curator.earlier_sources import (
    choose_sources,
    limit_sources,
    read_source_rows,
    write_sources,
)
from dither.curator.jobs import check_job, hash_job, import_algorithm, run_once
from dither.curator.limit_acts import LimitActs
from dither.curator.miss_log import LedgerMissLog
from dither.curator.modes import make_mode
from dither.curator.released import find_release, write_paid_release
from dither.curator.reply_limits import check_size, list_visible_pots
from dither.curator.schedule import WORK_SHARE, Schedule
from dither.curator.stored_answers import NOT_STORED, confirm_repeat, repeat_release
from dither.curator.suspensions import SuspensionLog, Suspensions
from dither.curator.warm_up import warm_up
from dither.curator.work_bounds import bound_work
from dither.embedded import AnswerRemarks, EmbeddedCurator
from dither.errors import DitherError, ParameterError, RefusedError, UnavailableError
from dither.identity import Access, AccessLog, Principal
from dither.identity.private_file import read_clock
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.request import Request
from dither.privacy.ledger.takeover import take_over
from dither.protocol import act_messages, documents, messages, page_messages
from dither.protocol.job_messages import JobDone, RunJob
from dither.protocol.repeat_messages import RepeatStored
from dither.publish.certificate import CertificateMode
from dither.rules import PrivacyRule

_PRICING_S = 0.04
_PRICING_SHARE = 0.25
"""Pricing may take so many CPU seconds, or this share of the slots: the kernel prices again."""
_REPEATS_AT_ONCE = 2
"""Repeats that read the ledger at once: more threads cost more CPU than they save time."""
LONGEST_REHEARSAL_S = 10.0
"""Seconds that the engine may take for one statement of a rehearsal: other rehearsals wait."""
CHANGED = (
    "the data were registered anew, or the terms of the budget changed, since this was priced; "
    "nothing was charged: ask again"
)


class ServedDataset:
    """A dataset behind the socket."""

    def __init__(
        self,
        curator: EmbeddedCurator,
        asks: AskLog,
        accesses: AccessLog,
        limits: LimitActs,
        suspensions: SuspensionLog,
        *,
        is_one_user: bool,
        slot_s: float = 0,
        job_s: float = 0,
    ) -> None:
        self._curator = curator
        self._asks = asks
        self._accesses = accesses
        self.limits = limits
        self._is_one_user = is_one_user
        misses = LedgerMissLog(lambda: self._curator.kernel.ledger, asks, self.name)
        self._schedule = Schedule(slot_s, misses)
        self._suspensions = Suspensions(lambda: self._curator.kernel.ledger, suspensions, self.name)
        self._job_s = job_s
        self._rehearsing = Lock()
        self._confirming = BoundedSemaphore(_REPEATS_AT_ONCE)
        self._start()

    @property
    def _mode(self) -> CertificateMode:
        return make_mode(self._schedule, is_one_user=self._is_one_user)

    @property
    def name(self) -> str:
        """What the catalog calls the dataset."""
        return self._curator.kernel.catalog.dataset

    @property
    def keeps_schedule(self) -> bool:
        """Whether answers leave at slots."""
        return self._schedule.is_kept

    def begin_epoch(self, *, is_shared: bool) -> None:
        """Take the ledger over, as one of several curators; else hold the epoch that it is in.

        Where its epoch began with a takeover, a curator that was not started as one of several is
        refused. One that was started so before is fenced by the first that takes over.
        """
        ledger = self._curator.kernel.ledger
        epoch = ledger.read_epoch()
        if is_shared:
            take_over(ledger, socket.gethostname())
        elif epoch.is_shared:
            raise DitherError(
                f"the ledger of {self.name} is shared by several curators: start with --shared"
            )
        else:
            ledger.epoch = epoch.number
        self._schedule.recount_misses()
        self._schedule.await_slots(
            record.released_at
            for record in self._curator.reports.history()
            if record.released_at is not None
        )

    def reopen(self) -> None:
        """Serve the newest registered version, also where its catalog is another."""
        epoch = self._curator.kernel.ledger.epoch
        self._curator = EmbeddedCurator(self.limits.file, is_served=True)
        self._curator.kernel.ledger.epoch = epoch
        self._start()

    def _start(self) -> None:
        """Let releases have the times of the schedule, and the first one wait for nothing."""
        self._curator.kernel.clock = self._schedule.read_clock
        self._limit_engine()
        if self._schedule.is_kept:
            warm_up(self._curator)

    def _limit_engine(self) -> None:
        """Stop the engine in time for the slots that are held now, where a schedule is kept."""
        if self._schedule.is_kept:
            self._curator.kernel.engine_limit_s = self._schedule.engine_limit_s

    def serve(
        self, call: BaseModel, principal: Principal, authorize: Callable[[], Principal]
    ) -> BaseModel:
        """The result of a call, for a principal that the curator itself has verified.

        A release holds a slot of the schedule. Everything else waits until no release does. Who
        waited is verified anew by `authorize`: a token or a grant that ended meanwhile buys and
        reads nothing. Where another curator took over meanwhile, nothing is sent.
        """
        result = self._serve(call, principal, authorize)
        self.check_epoch()
        return result

    def check_epoch(self) -> None:
        """Raise FencedError where another curator has taken the ledger over."""
        self._curator.kernel.ledger.check_epoch()

    def _serve(
        self, call: BaseModel, principal: Principal, authorize: Callable[[], Principal]
    ) -> BaseModel:
        if isinstance(call, RunJob):
            return self._serve_job(call, principal, authorize)
        if isinstance(call, messages.ReleaseRequest):
            with self._schedule.read_released() as reading:
                principal.check_pot(call.request.pot)
                priced, held_s = self._price_ask(call)
                if (repeat := self._repeat(call, priced, authorize)) is not None:
                    return repeat
                reading.is_followed_by_slot = True
            with self._schedule.hold_slot(principal.name, held_s), self._noting_suspension():
                self._limit_engine()
                principal = authorize()
                principal.check_pot(call.request.pot)
                return self._release(call, priced, principal)
        turn = self._confirming if isinstance(call, RepeatStored) else nullcontext()
        with self._schedule.read_released(), turn:
            return self._read(call, authorize())

    def _repeat(
        self, call: messages.ReleaseRequest, priced: Priced, authorize: Callable[[], Principal]
    ) -> BaseModel | None:
        """The stored answer, where it is free: no data is read, so it holds no slot."""
        if call.fresh or priced.key != call.key:
            return None
        release = repeat_release(self._curator.kernel.ledger, priced)
        if release is None:
            return None
        principal = authorize()
        principal.check_pot(call.request.pot)
        return self._hand_out_again(release, principal)

    def _serve_job(
        self, call: RunJob, principal: Principal, authorize: Callable[[], Principal]
    ) -> BaseModel:
        """Check a job by public facts, then run it within the slots of a job."""
        with self._schedule.read_released() as reading:
            principal.check_pot(call.pot)
            import_algorithm(call)
            started = time.thread_time()
            self._curator.view(call.pot)
            held_s = max(self._job_s, self._schedule.slot_s)
            longest_s = WORK_SHARE * held_s if self.keeps_schedule else None
            check_job(call, self._curator, longest_s)
            self._check_pricing(started, held_s)
            reading.is_followed_by_slot = True
        with self._schedule.hold_slot(principal.name, self._job_s), self._noting_suspension():
            self._limit_engine()
            principal = authorize()
            principal.check_pot(call.pot)
            self._curator.view(call.pot)
            done = run_once(call, self._curator, self._asks, principal.token_id, longest_s)
            act = "repeat" if done.repeated else "job"
            handed_at = self._schedule.read_clock()
            self._record_access(
                principal, act, call.pot, hash_job(call), done.made.release_id, handed_at
            )
            return JobDone(document=done.made.document)

    @singledispatchmethod
    def _read(self, call: BaseModel, principal: Principal) -> BaseModel:
        raise ParameterError(f"no dataset serves the call {type(call).__name__}")

    @_read.register
    def _read_facts(self, call: messages.ReadFacts, principal: Principal) -> BaseModel:
        self._curator.view(principal.pots[0] if principal.pots else "")
        version = self._curator.kernel.version
        return messages.PublicFacts(
            version=version.number,
            catalog=storage.to_json(version.catalog),
            catalog_hash=version.catalog_hash,
            facts=version.facts.to_json(),
            context=version.context,
            mode=self._mode.name,
            principal=messages.PrincipalDocument(
                name=principal.name, role=principal.role, pots=list(principal.pots)
            ),
        )

    @_read.register
    def _read_view(self, call: messages.ReadView, principal: Principal) -> BaseModel:
        principal.check_reading(call.pot)
        view = self._curator.view(call.pot)
        return messages.PotView(
            version=None if view.registered is None else view.registered.version,
            path=[documents.write_pot(pot) for pot in view.path],
            windows=None if view.windows is None else documents.write_pot(view.windows[0]),
        )

    @_read.register
    def _read_price(self, call: messages.PriceRequest, principal: Principal) -> BaseModel:
        principal.check_pot(call.request.pot)
        priced = self._price(documents.read_request(call.request), call.rules)
        return messages.PricedRequest(
            key=priced.key,
            loss=priced.loss.to_json(),
            stored=self._curator.has_answer(priced),
        )

    def _price_ask(self, call: messages.ReleaseRequest) -> tuple[Priced, float]:
        """Price what is to be released, and find how long it holds the dataset; both are public.

        Within a slot a request that takes long to price and is then refused would be a free miss,
        and every miss makes the slots of everybody longer.
        """
        started = time.thread_time()
        priced = self._price(documents.read_request(call.request), call.rules)
        check_size(priced)
        if priced.key != call.key:
            raise RefusedError(CHANGED, rule=PrivacyRule.CATALOG)
        if not self._schedule.is_kept:
            return priced, 0
        held_s = self._schedule.count_seconds(bound_work(priced))
        self._check_pricing(started, held_s)
        return priced, held_s

    def _check_pricing(self, started: float, held_s: float) -> None:
        """Refuse what takes more CPU time to price than a share of the time that it would hold."""
        longest_s = max(_PRICING_S, held_s * _PRICING_SHARE)
        if self._schedule.is_kept and time.thread_time() - started > longest_s:
            raise ParameterError(
                f"pricing this request alone takes more than {longest_s:g} s: ask for fewer "
                "columns, shares or steps at once"
            )

    @contextmanager
    def _noting_suspension(self) -> Iterator[None]:
        """Where a failure suspends budgets, that is so from the slot's end on."""
        try:
            yield
        except DitherError:
            with suppress(Exception):  # whatever happens here, the asker is told the same
                self._suspensions.note(self._schedule.read_clock())
            raise

    def _release(
        self, call: messages.ReleaseRequest, priced: Priced, principal: Principal
    ) -> BaseModel:
        """Release a request under the key that the asker computed, or not at all."""
        asked_at = read_clock()
        self._curator.view(priced.request.pot)
        if self._curator.kernel.version.number != priced.version.number:
            raise RefusedError(CHANGED, rule=PrivacyRule.CATALOG)
        release = self._release_once(call, principal, priced)
        if release.priced.key != call.key:
            raise RefusedError(
                "the data were registered anew while this was asked; its answer is stored: ask "
                "again",
                rule=PrivacyRule.CATALOG,
            )
        released_at = release.released_at
        handed_at = max(asked_at, released_at) if release.repeated else released_at
        act = "repeat" if release.repeated else "release"
        self._record_access(
            principal, act, call.request.pot, priced.key, release.release_id, handed_at
        )
        return documents.write_release(release)

    def _record_access(
        self,
        principal: Principal,
        act: str,
        pot: str,
        question: str | None,
        release_id: str,
        time: str,
    ) -> None:
        """Note who is handed what, before it leaves."""
        token = principal.token_id
        draft = Access(self.name, 0, time, principal.name, token, act, pot, question, release_id)
        self._accesses.record(draft)

    def _release_once(
        self, call: messages.ReleaseRequest, principal: Principal, priced: Priced
    ) -> Release:
        """Release a priced request; a second ask with the same idempotency key buys nothing.

        Without `fresh` no key is needed: the stored answer is free to whoever asks again.
        """
        if call.idempotency_key is None or not call.fresh:
            return self._curator.release(priced, fresh=call.fresh, sql=call.remark)
        question = digest([priced.key, priced.request.pot])
        is_first = self._asks.begin_ask(principal.token_id, call.idempotency_key, question)
        try:
            return self._curator.release(priced, fresh=is_first, sql=call.remark)
        except DitherError as error:
            if is_first and not isinstance(error, UnavailableError):
                self._asks.forget_ask(principal.token_id, call.idempotency_key)
            raise

    @_read.register
    def _read_stored(self, call: messages.ReadStored, principal: Principal) -> BaseModel:
        """Hand out a stored answer for which the pot owes nothing; nothing else is ever done."""
        principal.check_values(call.request.pot)
        priced = self._price(documents.read_request(call.request), call.rules)
        release = None
        if priced.key == call.key:
            release = repeat_release(self._curator.kernel.ledger, priced)
        if release is None:
            raise ParameterError(NOT_STORED)
        return self._hand_out_again(release, principal)

    def _hand_out_again(self, release: Release, principal: Principal) -> BaseModel:
        """Note who is handed a stored answer, and write it."""
        priced = release.priced
        handed_at = max(read_clock(), release.released_at)
        self._record_access(
            principal, "repeat", priced.request.pot, priced.key, release.release_id, handed_at
        )
        return documents.write_release(release)

    @_read.register
    def _confirm_repeat(self, call: RepeatStored, principal: Principal) -> BaseModel:
        """Let a gateway hand out the answer again that it kept."""
        principal.check_values(call.pot)
        answer, still = confirm_repeat(self._curator.kernel.ledger, call)
        handed_at = max(read_clock(), answer.released_at)
        self._record_access(principal, "repeat", call.pot, call.key, answer.release_id, handed_at)
        return still

    @_read.register
    def _rehearse(self, call: messages.RehearseRequest, principal: Principal) -> BaseModel:
        principal.check_pot(call.request.pot)
        request = documents.read_request(call.request)
        self._curator.view(request.pot)
        with self._rehearsing:
            return documents.write_release(self._curator.rehearse(request, LONGEST_REHEARSAL_S))

    @_read.register
    def _read_budget(self, call: messages.ReadBudget, principal: Principal) -> BaseModel:
        pots = self._curator.list_pots()
        if not principal.sees_all_pots:
            visible = list_visible_pots(pots, principal.pots)
            pots = tuple(pot for pot in pots if pot.name in visible)
        return messages.VisiblePots(pots=[documents.write_pot(pot) for pot in pots])

    @_read.register
    def _read_status(self, call: page_messages.ReadStatus, principal: Principal) -> BaseModel:
        return self._suspensions.describe(principal, read_clock())

    @_read.register
    def _read_history(self, call: messages.ReadHistory, principal: Principal) -> BaseModel:
        principal.check_reading(call.pot)
        releases = self._curator.read_history(call.pot).releases
        page = releases[call.start : call.start + call.count]
        shows_texts = principal.may_read_texts(call.pot)
        return messages.HistoryPage(
            releases=[write_paid_release(release, shows_texts) for release in page],
            total=len(releases),
        )

    @_read.register
    def _read_values(self, call: messages.ReadValues, principal: Principal) -> BaseModel:
        principal.check_values(call.pot)
        values = self._curator.read_history(call.pot).raw(call.release_id)
        self._record_access(principal, "values", call.pot, None, call.release_id, read_clock())
        return messages.ReleasedValues(values=documents.write_values(values))

    @_read.register
    def _certify(self, call: messages.CertifyRelease, principal: Principal) -> BaseModel:
        principal.check_certificate(call.request.pot)
        priced = self._price(documents.read_request(call.request), call.rules)
        release = find_release(self._curator.reports.history(), priced, call.release_id)
        certificate = self._curator.sign_release(release, _read_remarks(call.remarks), self._mode)
        self._record_access(
            principal, "certificate", call.request.pot, priced.key, call.release_id, read_clock()
        )
        return messages.SignedCertificate(certificate=certificate)

    @_read.register
    def _read_sources(self, call: messages.ReadSources, principal: Principal) -> BaseModel:
        principal.check_pot(call.pot)
        principal.check_values(call.pot)
        sources = limit_sources(self._curator.list_earlier_of(call.pot, read_source_rows(call)))
        for source in sources:
            self._record_access(
                principal, "values", call.pot, source.priced.key, source.release_id, read_clock()
            )
        return write_sources(sources)

    @_read.register
    def _certify_sources(self, call: messages.CertifySources, principal: Principal) -> BaseModel:
        principal.check_certificate(call.pot)
        sources = choose_sources(
            self._curator.list_earlier_of(call.pot, read_source_rows(call)), call.release_ids
        )
        certificate = self._curator.sign_earlier(
            sources, _read_remarks(call.remarks), call.plan_hash, self._mode
        )
        for source in sources:
            self._record_access(
                principal,
                "certificate",
                call.pot,
                source.priced.key,
                source.release_id,
                read_clock(),
            )
        return messages.SignedCertificate(certificate=certificate)

    @_read.register
    def _read_access_log(self, call: act_messages.ReadAccessLog, principal: Principal) -> BaseModel:
        principal.check_log()
        entries = self._accesses.read_page(self.name, call.start, call.count)
        return act_messages.AccessPage(
            entries=[act_messages.AccessDocument(**asdict(entry)) for entry in entries],
            total=self._accesses.count_entries(self.name),
        )

    def _price(self, request: Request, rules: int) -> Priced:
        """Price a request by the newest version.

        Where no answer of it was sold by earlier rules, these would say another noise than an
        answer has that is stored under the same key.
        """
        view = self._curator.view(request.pot)
        if rules < self._curator.kernel.version.facts.rules:
            raise ParameterError("no answer of this version was sold by earlier rules: ask again")
        return self._curator.kernel.price_at(replace(request, context="asked"), view, rules)


def _read_remarks(remarks: messages.Remarks) -> AnswerRemarks:
    """What an asker tells about an answer."""
    return AnswerRemarks(
        remarks.sql, tuple(remarks.limits), tuple(remarks.post_processing), remarks.commitment
    )
