"""Linear assignment: rows and columns matched one to one at the lowest total cost, many problems at once."""

from opsmith.ops.linear_assignment.functions import linear_assignment, linear_sum_assignment
from opsmith.ops.linear_assignment.ragged import linear_assignment_ragged

__all__ = ["linear_assignment", "linear_assignment_ragged", "linear_sum_assignment"]
