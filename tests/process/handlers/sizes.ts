export type Size = '720p' | '1080p'

export function heightOf(size: Size): number {
  return Number.parseInt(size, 10)
}
