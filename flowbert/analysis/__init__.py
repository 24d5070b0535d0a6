"""What a space of words or sentences looks like, in figures: frequency, isotropy, neighbours, how Gaussian it is."""

from flowbert.analysis.corpus_map import corpus_map as corpus_map
from flowbert.analysis.found import Analysis as Analysis
from flowbert.analysis.gaussianity import Gaussianity as Gaussianity
from flowbert.analysis.gaussianity import density_bits as density_bits
from flowbert.analysis.gaussianity import gaussianity as gaussianity
from flowbert.analysis.gold_bands import GoldBand as GoldBand
from flowbert.analysis.gold_bands import ScoredPairs as ScoredPairs
from flowbert.analysis.gold_bands import gold_bands as gold_bands
from flowbert.analysis.norms import Norms as Norms
from flowbert.analysis.norms import norms as norms
from flowbert.analysis.sentence_space import SentenceSpace as SentenceSpace
from flowbert.analysis.sentence_space import sentence_space as sentence_space
from flowbert.analysis.sentence_tokens import SentenceTokens as SentenceTokens
from flowbert.analysis.sentence_tokens import sentence_tokens as sentence_tokens
from flowbert.analysis.whole import analysis_of as analysis_of
from flowbert.analysis.word_space import WordBucket as WordBucket
from flowbert.analysis.word_space import principal_projection as principal_projection
from flowbert.analysis.word_space import word_buckets as word_buckets
