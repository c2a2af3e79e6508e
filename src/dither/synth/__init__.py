"""Synthetic tables: measured through a budget lease, fitted by a graphical model, drawn from it.

`con.synthesize(...)` makes a `Synthetic`; `load_synthetic` and `load_linked` read saved ones. This
package sees no rows: everything that it asks goes through the kernel's lease.
"""

from dither.synth.constraints import Constraint
from dither.synth.stored_model import load_linked, load_synthetic
from dither.synth.synthetic import Synthetic
from dither.synth.warm_start import PublicTable

__all__ = ["Constraint", "PublicTable", "Synthetic", "load_linked", "load_synthetic"]
