// A module that gives the application a client and a worker, and stops both with it. It needs nothing from Nest: a module
// is a class, and hooks are methods by their names.
import { Client } from '@curfew/sdk'

export const CURFEW = Symbol('curfew client')

/** Runs the worker for as long as the application runs. */
export class CurfewLife {
  constructor(client, worker) {
    this.client = client
    this.worker = worker
  }

  async onApplicationBootstrap() {
    await this.worker?.start()
  }

  // Nest closes the HTTP server before it calls this: requests are over, jobs may still run.
  async onApplicationShutdown() {
    await this.worker?.stop()
    await this.client.close()
  }
}

export class CurfewModule {
  /** `makeWorker` is left out in processes that only enqueue. */
  static forRoot({ url, token, makeWorker }) {
    const client = new Client({ url, token })
    return {
      module: CurfewModule,
      global: true,
      providers: [
        { provide: CURFEW, useValue: client },
        { provide: CurfewLife, useFactory: () => new CurfewLife(client, makeWorker?.()) },
      ],
      exports: [CURFEW],
    }
  }
}
