import './does-not-exist.mjs'
export const handler = () => null
