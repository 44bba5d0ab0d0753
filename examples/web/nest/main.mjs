// Decorators are functions: in TypeScript the lines below the class are @Controller('reports'), @Post() and so on.
import 'reflect-metadata'
import { Body, Controller, Get, Inject, Module, Param, Post, Res } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { createReport, makeWorker, readReport, token, url } from '../reports.mjs'
import { CURFEW, CurfewModule } from './curfew.module.mjs'

class ReportsController {
  constructor(client) {
    this.client = client
  }

  async create(body, response) {
    const answer = await createReport(this.client, body)
    response.status(answer.status).json(answer.body)
  }

  async read(id, response) {
    const answer = await readReport(this.client, id)
    response.status(answer.status).json(answer.body)
  }
}
const method = (name) => [
  ReportsController.prototype,
  name,
  Object.getOwnPropertyDescriptor(ReportsController.prototype, name),
]
Controller('reports')(ReportsController)
Inject(CURFEW)(ReportsController, undefined, 0)
Post()(...method('create'))
Body()(ReportsController.prototype, 'create', 0)
Res()(ReportsController.prototype, 'create', 1)
Get(':id')(...method('read'))
Param('id')(ReportsController.prototype, 'read', 0)
Res()(ReportsController.prototype, 'read', 1)

class AppModule {}
Module({ imports: [CurfewModule.forRoot({ url, token, makeWorker })], controllers: [ReportsController] })(AppModule)

const app = await NestFactory.create(AppModule, { logger: ['error'] })
// SIGTERM ends the application, and with it the worker. Without the option Nest ends the process by the same signal, not with 0.
app.enableShutdownHooks(['SIGTERM', 'SIGINT'], { useProcessExit: true })
await app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1')
console.log(`listening on ${await app.getUrl()}`)
