import { defineJob, journey, jsonata, schema, state } from '@curfew/sdk'

export const render = defineJob('report.render', { queue: 'reports' })

export const definition = journey('report', '1.0.0', {
  execution: {
    maxDuration: '5s',
    onTimeout: { errorCode: 'REPORT_TIMEOUT', reason: 'the report was not ready in time' },
  },
  lifecycle: { startMode: 'async' },
  input: schema({ type: 'object', required: ['month'], properties: { month: { type: 'string' } } }),
  start: 'figures',
  states: {
    figures: state.httpCall({
      method: 'GET',
      url: 'https://sales.example/months/${context.month}',
      timeout: '3s',
      resultVar: 'figures',
      next: 'fetched',
    }),
    fetched: state.choice([{ when: jsonata`context.figures.ok`, next: 'render' }], 'noFigures'),
    render: state.job({
      type: render,
      args: jsonata`[context.month, context.figures.body.total]`,
      timeoutMode: 'discard',
      mode: 'await',
      resultVar: 'rendered',
      next: 'rendered',
    }),
    rendered: state.choice([{ when: jsonata`context.rendered.ok`, next: 'report' }], 'notRendered'),
    report: state.transform({ mapper: jsonata`context.rendered.result`, resultVar: 'report', next: 'done' }),
    done: state.succeed('report'),
    noFigures: state.fail('NO_FIGURES', 'there are no figures of ${context.month}'),
    notRendered: state.fail('NOT_RENDERED', 'the job ended as ${context.rendered.state}'),
  },
})
