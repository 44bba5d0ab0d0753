/**
 * What a reader gets of a value that was sent as JSON: a date comes back as text, and a value that JSON drops is `undefined`. A type
 * that JSON does not change stays as it is.
 */
export type AsJson<T> = [T] extends [Read<T>] ? T : Read<T>

type Read<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends { toJSON(...args: never): infer Written }
    ? Read<Written>
    : T extends bigint
      ? never
      : // eslint-disable-next-line @typescript-eslint/no-unsafe-function-type -- every function
        T extends symbol | Function
        ? undefined
        : T extends object
          ? { [Key in keyof T]: Read<T[Key]> }
          : T
