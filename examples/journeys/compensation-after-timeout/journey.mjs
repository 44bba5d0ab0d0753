import { graph, journey, jsonata, schema, state } from '@curfew/sdk'

export const definition = journey('flight', '1.0.0', {
  execution: {
    maxDuration: '2s',
    onTimeout: { errorCode: 'PAYMENT_TIMEOUT', reason: 'the payment took too long' },
  },
  lifecycle: { startMode: 'sync' },
  input: schema({
    type: 'object',
    required: ['flight', 'card'],
    properties: { flight: { type: 'string' }, card: { type: 'string' } },
  }),
  start: 'book',
  states: {
    book: state.httpCall({
      method: 'POST',
      url: 'https://airline.example/seats',
      body: { flight: '${context.flight}' },
      timeout: '1s',
      resultVar: 'seat',
      next: 'booked',
    }),
    booked: state.choice([{ when: jsonata`context.seat.ok`, next: 'charge' }], 'full'),
    charge: state.httpCall({
      method: 'POST',
      url: 'https://bank.example/charges',
      body: { card: '${context.card}', seat: '${context.seat.body.id}' },
      timeout: '10s',
      resultVar: 'charge',
      next: 'charged',
    }),
    charged: state.choice([{ when: jsonata`context.charge.ok`, next: 'ticket' }], 'declined'),
    ticket: state.transform({
      mapper: jsonata`{ "seat": context.seat.body.id, "paid": true }`,
      resultVar: 'ticket',
      next: 'done',
    }),
    done: state.succeed('ticket'),
    full: state.fail('FLIGHT_FULL', 'no seat on ${context.flight}'),
    declined: state.fail('CARD_DECLINED', 'the card was declined'),
  },
  compensation: graph('hasSeat', {
    hasSeat: state.choice([{ when: jsonata`$exists(context.seat) and context.seat.ok`, next: 'giveBack' }], 'nothing'),
    giveBack: state.httpCall({
      method: 'POST',
      url: 'https://airline.example/cancellations',
      body: jsonata`{ "seat": context.seat.body.id, "because": outcome.terminationKind }`,
      timeout: '5s',
      resultVar: 'givenBack',
      next: 'nothing',
    }),
    nothing: state.succeed(),
  }),
})
