"""Vectors from elsewhere: files of them read and written block by block, as an encoder, and at lower precision."""

from flowbert.vectors.precision import PRECISIONS as PRECISIONS
from flowbert.vectors.precision import Ranges as Ranges
from flowbert.vectors.precision import check_precision as check_precision
from flowbert.vectors.precision import quantize as quantize
from flowbert.vectors.precision import warn_of_own_scale as warn_of_own_scale
from flowbert.vectors.table import VectorCorpus as VectorCorpus
from flowbert.vectors.table import Vectors as Vectors
from flowbert.vectors.table import VectorTable as VectorTable
from flowbert.vectors.writing import WRITABLE as WRITABLE
from flowbert.vectors.writing import write_vectors as write_vectors
