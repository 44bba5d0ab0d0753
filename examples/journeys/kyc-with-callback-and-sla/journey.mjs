import { journey, jsonata, schema, state } from '@curfew/sdk'

const verdict = schema({
  type: 'object',
  required: ['result'],
  properties: { result: { enum: ['clear', 'suspicious'] } },
})

export const definition = journey('kyc', '1.0.0', {
  tags: ['kyc'],
  execution: {
    maxDuration: '1d',
    onTimeout: { errorCode: 'KYC_SLA_BREACHED', reason: 'the provider did not decide within a day' },
  },
  lifecycle: { startMode: 'async' },
  input: schema({ type: 'object', required: ['customer'], properties: { customer: { type: 'string' } } }),
  resilience: {
    default: 'patient',
    definitions: {
      patient: {
        maxAttempts: 4,
        retryOn: ['NETWORK_ERROR', 'TIMEOUT', 'HTTP_5XX', 'HTTP_429'],
        backoff: { kind: 'exponential', baseDelay: '500ms', maxDelay: '5s', jitter: 'full' },
      },
    },
  },
  start: 'request',
  states: {
    request: state.httpCall({
      method: 'POST',
      url: 'https://kyc.example/checks',
      body: { customer: '${context.customer}' },
      timeout: '5s',
      resultVar: 'check',
      next: 'requested',
    }),
    requested: state.choice([{ when: jsonata`context.check.ok`, next: 'verdict' }], 'unreachable'),
    verdict: state.webhook({ input: verdict, timeout: '4h', onTimeout: 'remind', next: 'decide' }),
    remind: state.httpCall({
      mode: 'notify',
      method: 'POST',
      url: 'https://kyc.example/checks/${context.check.body.id}/reminders',
      next: 'lateVerdict',
    }),
    lateVerdict: state.webhook({ input: verdict, next: 'decide' }),
    decide: state.choice([{ when: jsonata`context.payload.result = "clear"`, next: 'summary' }], 'refused'),
    summary: state.transform({
      mapper: jsonata`{ "status": "CLEARED", "customer": context.customer, "check": context.check.body.id }`,
      resultVar: 'summary',
      next: 'cleared',
    }),
    cleared: state.succeed('summary'),
    refused: state.fail('KYC_REFUSED', '${context.customer} did not pass'),
    unreachable: state.fail('KYC_UNREACHABLE', 'the provider took no request'),
  },
})
