import { render } from 'preact'
import { App } from './app.tsx'
import { startRouter } from './router.ts'
import { startClock } from './time.ts'
import './style.css'

startRouter()
startClock()
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
