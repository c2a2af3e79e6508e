"""Tests by what they test: a new test goes to the folder of the room that it tests.

- `accounting`, `answer`, `audit`, `catalog`, `cli`, `data`, `local`, `plan`, `publish`, `sql`,
  `steward`: the rooms of `src/dither` with the same names; `kernel`, `ledger`, `mechanisms`,
  `noise`: those of `src/dither/privacy`. A file's name says which thing of the room it tests.
  What an attack found goes there too.
- `published_bugs`: mistakes of other systems that were published, each tried here.
- `state`: state that releases wrote, which later code must read.
- `datasets`: the catalogs and rows that tests share. Look there before you write a catalog.
- This folder: tests of the project as a whole (pages, layout, stored names), and the helpers that
  several folders use.

Imports are absolute (`from tests.datasets import clinic`), and every folder with Python files is a
package.
"""
