"""Rules: one table, judged on the node and, as PromQL, by Prometheus.

`table` has the rows and what judging leaves behind, `judging` the evaluation, `telling` and `board` what is shown of
it, `promql` the other judge's words, `checking` what can be wrong with a row. All is pure: time comes in with the
snapshot.
"""

from npumond.rules.board import Board as Board
from npumond.rules.board import Told as Told
from npumond.rules.board import board as board
from npumond.rules.checking import mistakes as mistakes
from npumond.rules.checking import parse_selector as parse_selector
from npumond.rules.judging import evaluate as evaluate
from npumond.rules.judging import restored as restored
from npumond.rules.promql import promql as promql
from npumond.rules.table import RESOLVED_KEPT_S as RESOLVED_KEPT_S
from npumond.rules.table import SEVERITIES as SEVERITIES
from npumond.rules.table import UNKNOWN_KEPT_S as UNKNOWN_KEPT_S
from npumond.rules.table import Alert as Alert
from npumond.rules.table import Condition as Condition
from npumond.rules.table import Matcher as Matcher
from npumond.rules.table import Memory as Memory
from npumond.rules.table import Override as Override
from npumond.rules.table import Rule as Rule
from npumond.rules.table import RuleState as RuleState
from npumond.rules.table import Severity as Severity
from npumond.rules.table import Transition as Transition
from npumond.rules.telling import alert_json as alert_json
from npumond.rules.telling import description as description
from npumond.rules.telling import in_words as in_words
from npumond.rules.telling import shown as shown
from npumond.rules.telling import state_samples as state_samples
