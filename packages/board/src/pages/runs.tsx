export function Runs() {
  return <h1>todo</h1>
}
export const RunPage = Runs
