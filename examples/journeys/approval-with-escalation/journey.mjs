import { journey, jsonata, schema, state } from '@curfew/sdk'

const decision = schema({ type: 'object', required: ['approved'], properties: { approved: { type: 'boolean' } } })

export const definition = journey('approval', '1.0.0', {
  tags: ['approvals'],
  execution: {
    maxDuration: '60h',
    onTimeout: { errorCode: 'DECISION_TIMEOUT', reason: 'no decision came in time' },
  },
  lifecycle: { startMode: 'async', cancellable: true },
  input: schema({
    type: 'object',
    required: ['invoice', 'amount'],
    properties: { invoice: { type: 'string' }, amount: { type: 'number' } },
  }),
  start: 'size',
  states: {
    size: state.choice([{ when: jsonata`context.amount < ${100}`, next: 'small' }], 'approve'),
    approve: state.wait({ input: decision, timeout: '1d', onTimeout: 'escalate', next: 'decide' }),
    escalate: state.httpCall({
      mode: 'notify',
      method: 'POST',
      url: 'https://mail.example/boss',
      body: { subject: 'Invoice ${context.invoice} waits for you' },
      next: 'bossApproves',
    }),
    bossApproves: state.wait({ input: decision, timeout: '1d', onTimeout: 'undecided', next: 'decide' }),
    decide: state.choice([{ when: jsonata`context.payload.approved`, next: 'approved' }], 'refused'),
    small: state.transform({ mapper: jsonata`{ "approved": true }`, path: 'payload', next: 'approved' }),
    approved: state.succeed(),
    refused: state.fail('REFUSED', 'invoice ${context.invoice} was refused'),
    undecided: state.fail('NOT_DECIDED', 'neither the clerk nor the boss decided invoice ${context.invoice}'),
  },
})
