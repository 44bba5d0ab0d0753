import { describe, expect, test } from 'vitest'
import { checkDatePicture, checkInstant, checkNumberPicture, checkParsePicture, checkTimezone } from './pictures.ts'

describe('a picture for reading', () => {
  const readable = [
    ...[
      '[Y0001]-[M01]-[D01]',
      '[Y0001][M01][D01]',
      '[H01]:[m01]:[s01].[f001]',
      '[D1o] [MNn] [Y]',
      '[FNn], [D] [MNn,*-3]',
    ],
    ...[
      '[Y]-[M]-[D]T[H]:[m]:[s][Z]',
      '[H01][m01][s01][f]',
      '[h]:[m01] [P]',
      '[[[Y]]]',
      '[Dw] of [MNn] [Yw]',
      '[DI]/[MI]/[Y]',
    ],
  ]
  test.each(readable)('%s is taken', (picture) => {
    checkParsePicture(picture, 'x')
  })

  const ambiguous = [
    '[f][f]',
    '[f]0[f]',
    '[MNn][FNn]',
    '[MNn]a[FNn]',
    '[DI][MI]',
    '[Z][f]',
    '[Y][fn]',
    '[f][Y]',
    '[Z]1[Y]',
    '[P][MNn]',
  ]
  test.each(ambiguous)('%s is not: a text could be read in more than one way', (picture) => {
    expect(() => {
      checkParsePicture(picture, 'x')
    }).toThrow(/side by side/)
  })

  test('may have few words, for short texts', () => {
    expect(() => {
      checkParsePicture('[Dw] [Mw] [Yw]', 'x')
    }).toThrow(/too many words/)
    expect(() => {
      checkParsePicture('[Dw]', 'x'.repeat(129))
    }).toThrow(/too many words/)
  })
})

test('a picture has a length and widths that make sense', () => {
  for (const picture of [
    '[Y,1000]',
    '[M,*-999]',
    '[D,300000000-300000001]',
    '[' + '0'.repeat(40) + ']',
    'x'.repeat(257),
  ])
    expect(() => checkDatePicture(picture)).toThrow(expect.objectContaining({ code: 'JN_FUNCTION_ERROR' }) as Error)
  expect(() => {
    checkNumberPicture('#'.repeat(257), undefined)
  }).toThrow(/longer than 256/)
  expect(() => {
    checkNumberPicture('0', { 'zero-digit': 5 })
  }).toThrow(/short strings/)
})

test('instants and time zones are what dates can have', () => {
  for (const ms of [NaN, 1e300, -1e17])
    expect(() => {
      checkInstant(ms)
    }).toThrow(/not a date/)
  for (const zone of ['99999999999', '+01:00', 'UTC', ''])
    expect(() => {
      checkTimezone(zone)
    }).toThrow(/time zone/)
  checkTimezone('-0500')
})
