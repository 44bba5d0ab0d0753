export function Workers() {
  return <h1>todo</h1>
}
export const WorkerPage = Workers
