"""opsmith's bridge, built for each release of torch; `bridges.json` lists them. opsmith itself loads the one that fits."""
