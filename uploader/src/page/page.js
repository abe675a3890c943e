
'use strict'
// Sends one file by tus 1.0.0. What the server says of the upload in JSON decides what comes next; nothing else is believed,
// so that a cut, a reload and a server that started again are all the same.

const $ = (id) => document.getElementById(id)
const main = document.querySelector('main')
const folder = main.dataset.place === 'folder'
const here = new URL(location.href.split(/[?#]/)[0])
const files = new URL('files/', here)

const MIB = 1 << 20
// A small part first: what is no disk is refused before much was sent.
const FIRST = MIB
const MOST = 64 * MIB
const STALL = 90e3
const POLL = 700

let file = null // What is sent.
let url = folder ? null : here // Where it is sent to.
let turn = 0 // Counts what was begun: what is not the newest ends.
let xhr = null
let wake = () => {} // Ends a wait.
let part = FIRST
let samples = []
let drawn = 0
let told = 0
let awaited = null // A file that waits for the token.

// Why something was not done. What is passing may be tried again.
class Problem extends Error {
  constructor(message, { passing = false, status = 0, reason = '', after = 0 } = {}) {
    super(message)
    Object.assign(this, { passing, status, reason, after })
  }
}

// What is remembered of a file, so that it can be told from another after a reload.
const memory = {
  key: `millrace ${here.pathname}`,
  load() {
    try { return JSON.parse(localStorage.getItem(this.key)) } catch { return null }
  },
  keep() {
    const { name, size, lastModified } = file
    try { localStorage.setItem(this.key, JSON.stringify({ name, size, lastModified, url: url.href })) } catch { /* Private. */ }
  },
  drop() {
    try { localStorage.removeItem(this.key) } catch { /* Private. */ }
  },
}
const same = (a, b) => a.name === b.name && a.size === b.size && a.lastModified === b.lastModified

// Words.
function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  let unit = 0
  while (n >= 1024 && unit < 5) { n /= 1024; unit++ }
  return `${unit ? (Math.floor(n * 10) / 10).toFixed(1) : n} ${units[unit]}`
}
function time(seconds) {
  if (seconds < 5) return 'a few seconds'
  if (seconds < 60) return `${Math.ceil(seconds / 5) * 5} seconds`
  const minutes = Math.ceil(seconds / 60)
  if (minutes < 60) return `${minutes} ${minutes > 1 ? 'minutes' : 'minute'}`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

// What is seen. Nothing that comes from a file or a server is ever anything but text.
const TITLES = {
  idle: 'Upload a disk image', stopped: 'Go on with an upload', sending: 'Sending the image', paused: 'Paused',
  waiting: 'Waiting for the server', finishing: 'Verifying and storing', done: 'The disk is complete', failed: 'The upload failed',
}
function view(state) {
  const focused = document.activeElement
  const shown = {
    transfer: ['stopped', 'sending', 'paused', 'waiting', 'finishing'], choose: ['idle', 'stopped'], result: ['done', 'failed'],
  }
  for (const id in shown) $(id).hidden = !shown[id].includes(state)
  if (main.dataset.state !== state) told = 0
  main.dataset.state = state
  main.className = { done: 'done', failed: 'failed', finishing: 'busy', sending: '' }[state] ?? 'still'
  $('title').textContent = TITLES[state]
  $('invite').textContent = state === 'stopped' ? 'Drop the same file here' : 'Drop a disk image here'
  $('pause').hidden = state === 'stopped' || state === 'finishing'
  $('cancel').hidden = state === 'finishing'
  $('pause').textContent = state === 'paused' ? 'Resume' : 'Pause'
  if (state === 'finishing') { $('bar').removeAttribute('value'); $('rate').textContent = '' }
  if (state !== 'idle') note('')
  if (!['sending', 'paused', 'waiting'].includes(state) && answer) answer(false)
  if (state !== 'sending') document.title = file ? `${TITLES[state]} – ${file.name}` : TITLES[state]
  // Whoever works by keyboard is not thrown back to the top of the document.
  if (focused !== document.body && !focused?.checkVisibility?.()) $('title').focus()
}
function note(text) {
  $('note').textContent = text
  $('note').hidden = !text
}
function say(text) {
  $('said').textContent = text
}
function state(text) {
  $('state').textContent = text
  say(text)
}
function draw(at, size) {
  const percent = Math.floor(at / size * 100)
  $('bar').value = at / size
  $('percent').textContent = `${percent} %`
  $('sent').textContent = `${bytes(at)} of ${bytes(size)}`
  return percent
}
function moved(at) {
  const now = performance.now()
  samples.push([now, at])
  while (samples.length > 2 && now - samples[0][0] > 8000) samples.shift()
  if (now - drawn < 150 && at < file.size) return
  drawn = now
  const percent = draw(at, file.size)
  document.title = `${percent} % – ${file.name}`
  const [then, before] = samples[0]
  const rate = (at - before) / (now - then) * 1000
  if (now - then > 400 && rate > 0) {
    const left = time((file.size - at) / rate)
    $('rate').textContent = `${bytes(rate)}/s, ${left} left`
    if (percent >= told + 10) {
      told = percent - percent % 10
      say(`${percent} % sent, ${left} left`)
    }
  }
}

let answer = null // Answers the question that is asked.
function ask(question, yes, no) {
  answer?.(false)
  const before = document.activeElement
  $('asked').textContent = question
  $('yes').textContent = yes
  $('no').textContent = no
  $('question').hidden = false
  $('asked').focus()
  return new Promise((resolve) => {
    answer = (said) => {
      answer = null
      const within = $('question').contains(document.activeElement)
      $('question').hidden = true
      if (within) (before.checkVisibility() ? before : $('title')).focus()
      resolve(said)
    }
  })
}
$('yes').onclick = () => answer?.(true)
$('no').onclick = () => answer?.(false)

// The server.
function problem(status, kind, text, after) {
  let message = `the server, or something on the way to it, answered ${status}`
  let reason = ''
  try {
    ({ message, reason } = JSON.parse(text))
  } catch {
    if (kind?.startsWith('text/plain') && text.length < 500) message = text.trim()
  }
  const passing = [408, 423, 425, 429].includes(status) || (status === 409 && reason !== 'Busy') || (status >= 500 && status !== 501 && status !== 505)
  return new Problem(message, { passing, status, reason, after: Number(after) || 0 })
}
const CUT = () => new Problem('The server can’t be reached.', { passing: true })

async function call(method, to, headers = {}) {
  let response, text
  try {
    const signal = AbortSignal.timeout?.(60e3)
    response = await fetch(to, { method, headers: { Accept: 'application/json', ...headers }, cache: 'no-store', redirect: 'error', signal })
    text = await response.text()
  } catch {
    throw CUT()
  }
  const { status, ok, headers: said } = response
  if (!ok) throw problem(status, said.get('Content-Type'), text, said.get('Retry-After'))
  return { said, text }
}
async function status() {
  const { text } = await call('GET', url)
  try { return JSON.parse(text) } catch { throw new Problem('What answers here is not the upload server.') }
}
async function create() {
  const name = btoa(String.fromCharCode(...new TextEncoder().encode(file.name)))
  const headers = { 'Tus-Resumable': '1.0.0', 'Upload-Length': file.size, 'Upload-Metadata': `filename ${name}` }
  const token = secret()
  if (folder && token) headers.Authorization = `Bearer ${token}`
  const { said } = await call('POST', folder ? files : url, headers)
  // Only its last part counts: a proxy in front may know this place by another path.
  if (folder) url = new URL(said.get('Location').replace(/\/+$/, '').split('/').pop(), files)
  part = FIRST
  memory.keep()
}
const end = (at) => Math.min(at + part, file.size)
function send(at) {
  const to = end(at)
  return new Promise((resolve, reject) => {
    const request = xhr = new XMLHttpRequest()
    let stall
    const alive = () => {
      clearTimeout(stall)
      stall = setTimeout(() => request.abort(), STALL)
    }
    request.open('PATCH', url)
    request.setRequestHeader('Accept', 'application/json')
    request.setRequestHeader('Tus-Resumable', '1.0.0')
    request.setRequestHeader('Upload-Offset', at)
    request.setRequestHeader('Content-Type', 'application/offset+octet-stream')
    request.upload.onprogress = ({ loaded }) => {
      alive()
      if (request === xhr) moved(at + loaded)
    }
    request.upload.onload = () => {
      if (to === file.size && request === xhr) finishing()
    }
    request.onload = () => {
      const header = (name) => request.getResponseHeader(name)
      if (request.status === 204) return resolve(Number(header('Upload-Offset')))
      reject(problem(request.status, header('Content-Type'), request.responseText, header('Retry-After')))
    }
    request.onerror = request.onabort = () => reject(CUT())
    request.onloadend = () => clearTimeout(stall)
    alive()
    request.send(file.slice(at, to))
  })
}
function stop() {
  turn++
  const request = xhr
  xhr = null
  request?.abort()
  wake()
}
const wait = (ms) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms)
  wake = () => { clearTimeout(timer); resolve() }
})

// The upload, from here to its end. With `anew` what the server has is forgotten.
async function run(anew = false) {
  stop()
  const mine = turn
  let failures = 0
  samples = []
  $('name').textContent = file.name
  if (anew) draw(0, file.size)
  sending()
  while (turn === mine) {
    try {
      if (anew) {
        await create()
        anew = false
      }
      const now = await status()
      if (turn !== mine) return
      if (now.phase === 'Succeeded') return succeed(now.report)
      if (now.phase === 'Failed') return fail(now.report.message)
      if (now.phase === 'Cancelled') return fail('the upload was cancelled')
      if (now.phase === 'Finishing' || now.offset === file.size) {
        finishing()
        await wait(POLL)
        continue
      }
      if (now.length !== file.size) {
        if (now.offset > 0) return fail('another image is being sent to this place', true)
        // The server has started again, and has nothing.
        anew = true
        continue
      }
      sending()
      draw(now.offset, file.size)
      samples = []
      for (let at = now.offset; turn === mine && at < file.size;) {
        await file.slice(at, at + 1).arrayBuffer().catch(() => {
          throw new Problem('the file can’t be read: it was changed, moved or removed since it was chosen')
        })
        const next = await send(at)
        if (next > at) failures = 0
        // The last byte is acknowledged with the disk: how it ends is asked for.
        at = end(at) === file.size ? file.size : next
        part = Math.min(part * 4, MOST)
      }
    } catch (error) {
      if (turn !== mine) return
      if (error.status === 401 && folder) return access(file, 'The server does not know this token.')
      if (error.status === 404 && folder && !anew) {
        anew = true
        continue
      }
      if (error.status === 413 && part > MIB / 4) {
        // Something on the way takes no requests that large.
        part = Math.max(part / 8, MIB / 4)
        continue
      }
      if (!error.passing) return fail(error.message, error.reason === 'Busy' || !(error instanceof Problem))
      failures++
      // Where it is may have changed while it was asked for: once that is no failure.
      if (error.status === 409 && failures === 1) continue
      const seconds = Math.max(error.after, Math.min(2 ** failures / 4, 30) * (0.8 + Math.random() * 0.4))
      part = Math.max(part / 2, FIRST)
      view('waiting')
      $('rate').textContent = ''
      state(`${sentence(error.message)} Trying again ${seconds < 2 ? 'now' : `in ${time(seconds)}`}; nothing is lost.`)
      await wait(seconds * 1000)
    }
  }
}
function sending() {
  view('sending')
  $('state').textContent = 'If the connection breaks, it goes on where it was. You can use other tabs meanwhile.'
}
function finishing() {
  if (main.dataset.state === 'finishing') return
  view('finishing')
  draw(file?.size ?? 1, file?.size ?? 1)
  $('bar').removeAttribute('value')
  state('All of it was sent. The server goes on by itself, even if you close this page.')
}
function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.')
}
function succeed(report) {
  memory.drop()
  const { image, source, target, durationSeconds } = report
  const kind = [image?.format, ...image?.wrappers ?? []].filter(Boolean).join(' in ')
  $('reason').textContent = 'It was verified and stored. You can close this page.'
  facts({
    'File': file?.name,
    'Kind of image': kind,
    'Size of the disk': target && bytes(target.size),
    'Received': source && `${bytes(source.bytes)} in ${time(durationSeconds)}`,
    'Stored at': target?.reference,
    'Digest': target?.digest,
  })
  $('again').hidden = true
  $('other').hidden = !folder
  $('other').textContent = 'Upload another'
  view('done')
  say('The disk is complete.')
}
function fail(message, again = false) {
  xhr = null
  if (!again) memory.drop()
  $('reason').textContent = sentence(message)
  facts({ 'File': file?.name })
  $('again').hidden = !again || !file
  $('other').hidden = false
  $('other').textContent = 'Choose another file'
  view('failed')
  say(`The upload failed: ${message}`)
}
function facts(all) {
  $('facts').replaceChildren(...Object.entries(all).filter(([, text]) => text).flatMap(([name, text]) => {
    const [term, description] = [document.createElement('dt'), document.createElement('dd')]
    term.textContent = name
    description.textContent = text
    return [term, description]
  }))
}
function idle(text = '') {
  file = null
  if (folder) url = null
  view('idle')
  note(text)
  say(text)
}

// People.
async function choose(chosen) {
  if (!chosen || !['idle', 'stopped', 'failed', 'done'].includes(main.dataset.state)) return
  if (main.dataset.state === 'done' && !folder) return
  if (chosen.size === 0) return note('This is an empty file, or a folder: choose the file of a disk image.')
  const stopped = main.dataset.state === 'stopped'
  const known = stopped ? memory.load() : null
  if (known && same(known, chosen)) {
    file = chosen
    return run()
  }
  if (stopped) {
    const size = chosen.size === known?.size ? 'of the same size' : `of ${bytes(chosen.size)}`
    const what = known ? `${chosen.name} ${size} is not the file that was being sent.` : 'Another image was being sent to this place.'
    if (!await ask(`${what} Send this one instead? What was sent before is forgotten.`, 'Send this one', 'Keep the other')) return
    if (folder) call('DELETE', url, { 'Tus-Resumable': '1.0.0' }).catch(() => {})
  }
  if (folder && main.dataset.token && !secret()) return access(chosen)
  file = chosen
  run(true)
}
function secret() {
  try { return sessionStorage.getItem('millrace token') } catch { return access.given }
}
function access(pending, why) {
  awaited = pending
  if (why) try { sessionStorage.removeItem('millrace token') } catch { access.given = '' }
  $('access').hidden = false
  if (pending) {
    file = null
    view('idle')
    note(why ?? `${pending.name} is sent when this server’s token is there.`)
    say($('note').textContent)
    $('token').focus()
  }
}
$('access').onsubmit = (event) => {
  event.preventDefault()
  access.given = $('token').value.trim()
  try { sessionStorage.setItem('millrace token', access.given) } catch { /* It is kept here. */ }
  $('token').value = ''
  $('access').hidden = true
  note('')
  const chosen = awaited
  awaited = null
  if (chosen) choose(chosen)
  else $('file').focus()
}
$('file').onchange = ({ target }) => {
  const [chosen] = target.files
  choose(chosen)
  // So that the same can be chosen again.
  target.value = ''
}
$('pause').onclick = () => {
  if (main.dataset.state === 'paused') return run()
  stop()
  $('rate').textContent = ''
  view('paused')
  state('Nothing is lost: the server keeps what was sent for a while.')
}
$('cancel').onclick = async () => {
  if (!await ask('Cancel this upload? What was sent is forgotten.', 'Cancel the upload', 'Keep it')) return
  stop()
  const mine = turn
  view('paused')
  state('Cancelling')
  memory.drop()
  const gone = await call('DELETE', url, { 'Tus-Resumable': '1.0.0' }).then(() => true, ({ status }) => status === 404)
  if (turn === mine) idle(gone ? 'The upload was cancelled.' : 'The upload was cancelled here. The server could not be told, and forgets it after a while.')
}
$('again').onclick = () => run()
$('other').onclick = () => {
  idle()
  $('file').focus()
}
let over = 0
const drag = (by) => (event) => {
  if (!event.dataTransfer?.types.includes('Files')) return
  event.preventDefault()
  over = Math.max(0, by ? over + by : 0)
  document.body.classList.toggle('over', over > 0)
}
document.ondragenter = drag(1)
document.ondragleave = drag(-1)
document.ondragover = (event) => event.preventDefault()
document.ondrop = (event) => {
  drag(0)(event)
  choose(event.dataTransfer?.files[0])
}
onbeforeunload = (event) => {
  if (['sending', 'waiting'].includes(main.dataset.state)) event.preventDefault()
}
ononline = () => wake()

// What was going on here before.
async function look() {
  const known = memory.load()
  if (known && folder) url = new URL(known.url.split('/').pop(), files)
  if (folder && main.dataset.token && !secret()) access()
  if (!url) return idle()
  for (let tries = 1; ; tries++) {
    try {
      const now = await status()
      if (now.phase === 'Succeeded') return succeed(now.report)
      if (now.phase === 'Finishing') {
        file = known
        $('name').textContent = known?.name ?? 'An image'
        finishing()
        await wait(POLL)
        continue
      }
      if (now.phase === 'Failed' && known) {
        file = known
        fail(now.report.message)
        file = null
        return
      }
      if (now.phase !== 'Receiving') {
        memory.drop()
        return idle()
      }
      const size = now.length ?? now.offset
      $('name').textContent = known?.name ?? 'Another image'
      draw(now.offset, size)
      view('stopped')
      return state(known ? `To go on, choose ${known.name} again.` : 'It is sent from another browser or program.')
    } catch ({ status: code, passing, message }) {
      if (code === 404 && folder) {
        memory.drop()
        return idle()
      }
      if (!passing) return fail(message)
      view('idle')
      note(`${sentence(message)} Trying again.`)
      await wait(Math.min(2 ** tries / 4, 30) * 1000)
    }
  }
}
$('terminal').textContent = $('terminal').textContent.replaceAll('ADDRESS', folder ? files.href.slice(0, -1) : here.href)
look()
