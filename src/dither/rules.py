"""The rules of the platform, each with an id and the sentence that a refusal shows.

Each has a section in docs/rules: the rule in plain words, what goes wrong without it, and the test
that holds it.
"""

from __future__ import annotations

from enum import Enum


class PrivacyRule(Enum):
    """One rule. The value is its id, which never changes.

    >>> PrivacyRule.KEY_SELECTION.value, PrivacyRule.KEY_SELECTION.link
    ('keys-need-selection', 'docs/rules/keys.md#keys-need-selection')
    """

    page: str
    sentence: str

    def __new__(cls, rule_id: str, page: str, sentence: str) -> PrivacyRule:
        rule = object.__new__(cls)
        rule._value_ = rule_id
        rule.page = page
        rule.sentence = sentence
        return rule

    @property
    def link(self) -> str:
        """Where the rule is explained, from the root of the repository."""
        return f"docs/rules/{self.page}.md#{self.value}"

    @property
    def label(self) -> str:
        """The rule as it ends the message of a refusal."""
        return f"[rule: {self.sentence}]"

    # what may be asked
    NO_RULE = "no-rule-no-answer", "questions", "what has no rule is refused"
    LISTED_FUNCTIONS = "listed-functions", "questions", "a function without a rule is refused"
    ARGUMENTS = "declared-arguments", "questions", "functions take their declared arguments"
    TOTAL_FUNCTIONS = "total-functions", "questions", "functions are total"
    TYPES = "declared-types", "questions", "types are declared"
    DECLARED_NAMES = "declared-names", "questions", "plans use declared names"
    PLAIN_NAMES = "plain-names", "questions", "names are plain and differ beyond case"
    REGISTERED_TABLES = "registered-tables", "questions", "plans read registered private tables"
    NOISY_AGGREGATES = "noisy-aggregates-only", "questions", "only noisy aggregates leave"
    IDS_NEVER_READ = "ids-never-read", "questions", "ids are never read"
    BOUNDED_WORK = "bounded-work", "questions", "work is bounded"
    PARAMETER_RANGES = "parameters-in-range", "questions", "parameters have a range"
    NULL_LOGIC = "three-valued-logic", "questions", "three-valued logic"
    ONLY_TIGHTEN = "options-only-tighten", "questions", "options tighten, never loosen"
    ONE_MEASURE = "one-price-one-measure", "questions", "one price, one measure"
    NO_SEED = "no-analyst-seed", "questions", "no analyst's seed"
    REHEARSAL = "rehearsals-read-no-data", "questions", "a rehearsal touches no registered data"

    # whose row it is
    LIMITED_ROWS = "limited-rows", "owners", "a private table is limited"
    ONE_OWNER = "one-owner-per-row", "owners", "every row has one owner"
    OWNERS_APART = "owners-never-meet", "owners", "no row meets another owner's row"
    LOST_OWNER = "lost-owner-stays-lost", "owners", "a row that lost its owner has none again"
    ROWS_ARE_A_SET = "rows-are-a-set", "owners", "inside a person rows are a set"
    RANK_BY_CONTENT = "rank-by-content", "owners", "which rows stay depends on their owner alone"
    READ_APART = "rows-read-apart", "owners", "nobody's row changes how another is read"
    TOTALS = "inner-total", "owners", "a grand total belongs to the question, not inside a plan"
    PUBLIC_FACTS = "public-facts", "owners", "facts of public tables are those of the version"
    WINDOWS = "every-window-pays", "owners", "every window that a question may touch pays"
    PARTS = "parts-follow-the-unit", "owners", "parallel parts split the units, under one rule"
    TWO_CHANGES = "replace-is-two-changes", "owners", "a replacement is a removal and an addition"
    WHO_IS_PROTECTED = "who-is-protected", "owners", "who and what is not protected is stated"

    # keys and bounds
    BOUNDS = "declared-bounds", "keys", "an aggregate needs declared bounds"
    CLAMP = "clamp-to-priced-bounds", "keys", "values are clamped to the priced bounds"
    WIDTHS = "widths-from-catalog", "keys", "widths come from the catalog"
    KEY_SELECTION = "keys-need-selection", "keys", "undeclared keys go through key selection"
    ALL_KEYS = "all-keys-returned", "keys", "all declared keys are returned"
    CATALOG = "registered-catalog", "keys", "the registered catalog is the one that counts"

    # noise and its price
    INTEGER_NOISE = "integer-noise-price", "noise", "integer noise is priced as integer noise"
    BOUNDED_RANGE = "bounded-range", "noise", "a bounded range is the exponential mechanism's alone"
    FRESH_NOISE = "fresh-noise", "noise", "every release draws its own noise"
    THEOREM = "loss-needs-theorem", "noise", "a loss without a theorem has no figure"
    SAMPLING = "sampling-schemes", "noise", "sampling schemes"
    GROUP_PRIVACY = "group-privacy", "noise", "group privacy"
    POT_RULE = "pot-counts-its-losses", "noise", "a budget pays only for what its rule can count"
    ADDITIVE_FIT = "fit-what-adds-up", "noise", "least squares needs numbers that add up"

    # charges and budgets
    CHARGE_FIRST = "charge-before-read", "budgets", "the charge comes before the data is read"
    FAILURE = "one-failure-text", "budgets", "a failure after the charge has one constant response"
    INCIDENTS_CAPPED = "incidents-capped", "budgets", "incidents are capped"
    ONE_INCIDENT = "one-incident-each", "budgets", "one incident each"
    DURABLE = "durable-charge", "budgets", "no answer without a durable charge"
    COMMIT_ONCE = "commit-once", "budgets", "a reserve is committed once"
    ROLLBACK = "no-rollback", "budgets", "a ledger is never rolled back"
    ONE_CURATOR = "one-curator", "budgets", "one curator at a time writes to a ledger"
    FOLLOW_DATA = "budgets-follow-data", "budgets", "budgets follow the data"
    RELATIONS = "declared-relations", "budgets", "opening a budget declares its relation to others"
    POPULATION = "populations-add-up", "budgets", "budgets of the same people add up"
    OPENED_ONCE = "pot-opened-once", "budgets", "a budget is opened once"
    ONE_GUARANTEE = "one-guarantee-per-pot", "budgets", "one guarantee per budget"
    CEILING = "ceiling-fixed", "budgets", "the ceiling is fixed before any answer is seen"
    PAID_VALUES = (
        "values-for-payers",
        "budgets",
        "an answer is shown to the budgets that paid for it",
    )
    REISSUE = (
        "reissue-reads-releases",
        "budgets",
        "a reissue starts from a release of its own budget",
    )
    LEASE = "lease-serves-its-plan", "budgets", "a lease serves its plan, in order, in one process"
    INTERRUPTS = "interrupts-wait", "budgets", "no interrupt reaches a charged question"
    NO_FORK = "engines-do-not-fork", "budgets", "engines do not fork"

    # what else could tell
    RELEASE_TIMES = "release-times-only", "leaks", "the time of the release is the only time shown"
    SETTLED = "settled-figures-only", "leaks", "figures leave out charges under way"
    EXACT_VALUES = "exact-values-stay", "leaks", "nothing exact leaves a prod dataset"
    FINGERPRINTS = "no-fingerprints", "leaks", "no fingerprint of the data is shown"
    VERSIONS = "versions-in-advance", "leaks", "no version is made because the data changed"
    TIME = "no-promise-about-time", "leaks", "embedded mode promises nothing about time"
    DEV = "dev-never-prod", "leaks", "dev is a property of a dataset that never had a prod budget"
    AUDITS = "audits-never-read-prod", "leaks", "audits never read prod"
    AUDIT_DESIGN = "audits-fixed-in-advance", "leaks", "an audit is fixed before it sees its runs"
    DEVICE = "device-lifetime", "leaks", "a device has one budget for its lifetime"
    SAME_REFUSALS = "same-refusals", "leaks", "clients in every language refuse the same values"
