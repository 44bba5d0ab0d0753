import { render } from 'preact'
import { learnSession } from './api.ts'
import { App } from './app.tsx'
import { startPulse } from './live.ts'
import { startRouter } from './router.ts'
import { startClock } from './time.ts'
import './style.css'

const theme = localStorage.getItem('curfew-theme') ?? ''
if (theme !== '') document.documentElement.dataset['theme'] = theme
startRouter()
startClock()
startPulse()
// Where it fails, the page says that the server is silent; actions stay hidden until it is known who asks.
learnSession().catch(() => {})
const root = document.getElementById('app')
if (root !== null) render(<App />, root)
