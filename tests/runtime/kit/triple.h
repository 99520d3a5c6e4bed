#pragma once

void triple_in_place(double* data, long count);
