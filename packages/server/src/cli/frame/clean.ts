/** Removes control characters, so that text from a file or a server cannot control the terminal. */

/** Control characters become dots; tabs and ends of lines stay. */
// eslint-disable-next-line no-control-regex
export const clean = (text: string): string => text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '·')

/** The same for every string in a value. */
export function cleaned<T>(value: T): T {
  if (typeof value === 'string') return clean(value) as T
  if (Array.isArray(value)) return value.map((one: unknown) => cleaned(one)) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [clean(key), cleaned(one as unknown)])) as T
}
