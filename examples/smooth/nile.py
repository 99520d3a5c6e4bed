"""Fits the decay of a low-pass filter to a century of the Nile's flow.

The series is the annual flow at Aswan, 1871-1970, in 10^8 cubic metres (Cobb, "The problem of the Nile", Biometrika 65,
1978). The filtered value of one year is the forecast for the next, so the decay with the smallest squared error is simple
exponential smoothing; its smoothing constant for this series is 0.2466 (statsmodels, started at the first value).
"""

from __future__ import annotations

import torch

from smooth import LowPass

FLOW = """
1120 1160  963 1210 1160 1160  813 1230 1370 1140  995  935 1110  994 1020  960 1180  799  958 1140
1100 1210 1150 1250 1260 1220 1030 1100  774  840  874  694  940  833  701  916  692 1020 1050  969
 831  726  456  824  702 1120 1100  832  764  821  768  845  864  862  698  845  744  796 1040  759
 781  865  845  944  984  897  822 1010  771  676  649  846  812  742  801 1040  860  874  848  890
 744  749  838 1050  918  986  797  923  975  815 1020  906  901 1170  912  746  919  718  714  740
"""


def fit(flow: torch.Tensor, steps: int = 200) -> tuple[LowPass, float]:
    """Return the filter with the best one-year forecasts of flow [years], and their root mean square error."""
    model = LowPass(channels=1).to(flow.dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        forecast = model(flow[None, :-1])
        error = (forecast - flow[None, 1:]).square().mean()
        error.backward()
        optimizer.step()
    return model, error.sqrt().item()


def main() -> None:
    """Fit the filter and print what it found."""
    flow = torch.tensor([float(word) for word in FLOW.split()], dtype=torch.float64)
    model, error = fit(flow)
    print(
        f"smoothing constant 1 - decay = {1 - model.decay.item():.3f}, forecast error {error:.0f} of {flow.mean():.0f}"
    )


if __name__ == "__main__":
    main()
