export function Queues() {
  return <h1>todo</h1>
}
export const QueuePage = Queues
