// An executor with the npm package xxl-job, for the tests: the handlers `echo` and `hold`.
const { createRequire } = require('node:module')
const load = createRequire(process.env.CLIENT_MODULES + '/')
const express = load('express')
const { createXxlJobExecutor } = load('xxl-job')

const jobHandlers = new Map()
jobHandlers.set('echo', async (logger, request, params) => {
  logger.info(`echo ${params} share ${request.broadcastIndex} of ${request.broadcastTotal}`)
  return 'echoed'
})
jobHandlers.set('hold', async (logger) => {
  logger.info('holding')
  await new Promise((resolve) => setTimeout(resolve, 600_000))
})

const port = Number(process.env.CLIENT_PORT)
const app = express()
app.use(express.json())
app.listen(port, '127.0.0.1', () => {
  createXxlJobExecutor({
    app,
    jobHandlers,
    appType: 'express',
    logStorage: 'local',
    accessToken: process.env.CLIENT_TOKEN,
    baseUrl: `http://127.0.0.1:${port}`,
    executorKey: process.env.CLIENT_GROUP,
    scheduleCenterUrl: `http://${process.env.CLIENT_DOOR}/xxl-job-admin`,
  }).initialization()
})
