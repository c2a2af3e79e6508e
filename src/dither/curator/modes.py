"""What a certificate of a served dataset does not promise."""

from __future__ import annotations

from dither.publish.certificate import CertificateMode

_SPLIT_NOT_PROMISED = (
    "how long answers take tells of the data: this version keeps no schedule of response times",
    "the text of the question, its limits, post-processing and the commitment to the table are as "
    "told by the gateway; plan, mechanisms, loss and charges are the curator's own",
    "whoever controls the gateway can ask with any token that passes through it: the dataset's "
    "total is promised, the pots inside it are not",
)
SPLIT = CertificateMode("split", _SPLIT_NOT_PROMISED)
ONE_USER = CertificateMode(
    "split, one user",
    (
        "curator and gateway ran as one user of the computer: the gateway could read the data, the "
        "ledger and the signing key",
        *_SPLIT_NOT_PROMISED,
    ),
)
