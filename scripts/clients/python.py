"""An executor with pyxxl, for the tests: the handlers `echo` and `hold`."""

import asyncio
import os

from pyxxl import ExecutorConfig, JobHandler, PyxxlRunner
from pyxxl.ctx import g

handlers = JobHandler()


@handlers.register(name="echo")
async def echo():
    data = g.xxl_run_data
    g.logger.info("echo %s share %s of %s", data.executorParams, data.broadcastIndex, data.broadcastTotal)
    return "echoed"


@handlers.register(name="hold")
async def hold():
    g.logger.info("holding")
    await asyncio.sleep(600)


port = int(os.environ["CLIENT_PORT"])
config = ExecutorConfig(
    xxl_admin_baseurl=f"http://{os.environ['CLIENT_DOOR']}/xxl-job-admin/api/",
    executor_app_name=os.environ["CLIENT_GROUP"],
    access_token=os.environ["CLIENT_TOKEN"],
    executor_listen_host="127.0.0.1",
    executor_listen_port=port,
    executor_url=f"http://127.0.0.1:{port}",
    dotenv_try=False,
)
PyxxlRunner(config, handler=handlers).run_executor()
