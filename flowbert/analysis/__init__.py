"""What a space of words or sentences looks like, in figures: frequency, isotropy, neighbours, how Gaussian it is."""

from flowbert.analysis.gaussianity import Gaussianity as Gaussianity
from flowbert.analysis.gaussianity import density_bits as density_bits
from flowbert.analysis.gaussianity import gaussianity as gaussianity
from flowbert.analysis.sentence_space import SentenceSpace as SentenceSpace
from flowbert.analysis.sentence_space import sentence_space as sentence_space
from flowbert.analysis.word_space import WordBucket as WordBucket
from flowbert.analysis.word_space import principal_projection as principal_projection
from flowbert.analysis.word_space import word_buckets as word_buckets
