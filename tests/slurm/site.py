"""Site configuration of the throwaway cluster: the example site with changes for tests.

The environment variable SITE has settings of the partition, as JSON.
"""

import importlib.util
import json
import os
import pathlib

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "site-configs/example-slurm/reframe.py"

spec = importlib.util.spec_from_file_location("example", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

site_configuration = example.site_configuration
[system] = site_configuration["systems"]
[partition] = system["partitions"]
# Although the four nodes are one machine, jobs of a session may run at the same time, as they would on a cluster.
partition.update({"max_jobs": 8, "access": ["--partition=main", "--account=site", "--exclusive"]})
# A job that waits for a named node reports ReqNodeNotAvail while that node is busy. ReFrame must not cancel it then.
partition["sched_options"] = {"ignore_reqnodenotavail": True}
partition.update(json.loads(os.environ.get("SITE", "{}")))
