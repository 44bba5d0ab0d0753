export function Types() {
  return <h1>todo</h1>
}
export const TypePage = Types
