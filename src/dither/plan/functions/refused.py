"""Functions that are refused, and why. Read by error messages, the reference page and the tests."""

from __future__ import annotations

_LIBM = "its last digits depend on the machine's libm, and no float goes towards the noise"
_RANDOM = "randomness and time come from the kernel, never from a question"
_ORDER = "its value depends on the order of rows, and so on other people's rows"
_RAISES = "it raises on some rows, and an error that one row causes is an answer about that row"
_CODE = "it reaches beyond the row: files, settings or code"
_UNICODE = "it depends on the engine's version of Unicode or on its collation"
_LONG = "the work of one row would not be bounded by the declared width"

REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("exp", "ln", "log", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "cbrt"),
        _LIBM,
    ),
    **dict.fromkeys(
        ("random", "uuid", "now", "current_date", "current_timestamp", "today", "setseed"), _RANDOM
    ),
    **dict.fromkeys(
        ("any_value", "first", "last", "arg_max", "arg_min", "list", "string_agg", "array_agg"),
        _ORDER,
    ),
    **dict.fromkeys(
        (
            *("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"),
            *("lag", "lead", "first_value", "last_value", "nth_value"),
        ),
        _ORDER + "; a window function is for answers, and of rows an aggregate per person serves",
    ),
    **dict.fromkeys(
        ("factorial", "gcd", "lcm", "chr", "hamming", "jaccard", "json_extract", "decode"), _RAISES
    ),
    **dict.fromkeys(
        ("make_date", "make_timestamp", "strptime", "date_diff", "shift_left", "shift_right"),
        _RAISES,
    ),
    **dict.fromkeys(
        ("cast", "try_cast"),
        "write to_integer, to_number, label or parse_integer: each names its domain",
    ),
    **dict.fromkeys(
        ("try", "error"), "TRY() takes 200 times as long on a bad row: time would tell about it"
    ),
    **dict.fromkeys(
        ("getenv", "read_csv", "read_text", "current_setting", "nextval", "query"), _CODE
    ),
    **dict.fromkeys(
        ("ilike", "initcap", "reverse", "collate", "strip_accents", "unicode"), _UNICODE
    ),
    **dict.fromkeys(
        ("regexp_matches", "regexp_replace", "regexp_extract", "similar_to"),
        _UNICODE + "; use like",
    ),
    **dict.fromkeys(
        ("repeat", "format", "printf", "string_split", "unnest", "generate_series"), _LONG
    ),
    **dict.fromkeys(
        ("hash", "md5", "sha256"), "a hash of a value is that value to whoever can try them all"
    ),
    **dict.fromkeys(
        ("median", "quantile", "mode", "stddev", "variance", "avg"),
        "made from sums after the noise, or a query of their own",
    ),
}
