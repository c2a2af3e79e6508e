"""What a connection says about its dataset and its budget: tables, columns, balances, history."""

from __future__ import annotations

from dither.answer.curator_access import CuratorAccess, Pricer
from dither.answer.describe_tables import (
    Shown,
    TableList,
    describe_connection,
    describe_table,
    list_tables,
)
from dither.answer.history import History
from dither.catalog import Catalog
from dither.catalog.explain import horizon
from dither.publish.budget import PotBalances
from dither.publish.library import LIBRARY, ConnectionBalances


class DescriptionDoor:
    """The part of a connection that shows public facts and what was spent."""

    _curator: CuratorAccess
    _kernel: Pricer
    _pot: str

    def budget(self) -> PotBalances:
        """Spent, left, cap and ceiling of every pot, and what they promise."""
        kind = ConnectionBalances if self._kernel.version.context == LIBRARY else PotBalances
        return kind(self._curator.list_pots(), horizon=horizon(self._kernel.catalog))

    def history(self) -> History:
        """What was asked from this pot, and what it paid: parameters and prices."""
        return self._curator.read_history(self._pot)

    @property
    def tables(self) -> TableList:
        """The tables that can be asked about; iterating gives their names."""
        return list_tables(self.catalog)

    def describe(self, table: str) -> Shown:
        """The columns of a table, their types, and what their values may be."""
        return describe_table(self.catalog, table)

    def __repr__(self) -> str:
        return str(describe_connection(self.catalog, self._pot, self.budget()))

    def _repr_html_(self) -> str:
        return describe_connection(self.catalog, self._pot, self.budget())._repr_html_()

    @property
    def catalog(self) -> Catalog:
        """The registered catalog: the public facts that every answer rests on."""
        return self._kernel.catalog
