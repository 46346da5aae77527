package rpc

import "sync"

// pool keeps the workers of a server. An idle one is reused before a new one is
// started, the last to become idle first: its stack has grown and is warm.
type pool struct {
	run  func(*Conn) // what a worker does
	keep int         // idle workers kept

	mu      sync.Mutex
	idle    []chan *Conn // of workers that wait for work
	closing bool

	wg sync.WaitGroup // workers
}

// submit has run(c) done by a worker, without waiting.
func (p *pool) submit(c *Conn) {
	p.mu.Lock()
	if n := len(p.idle) - 1; n >= 0 {
		w := p.idle[n]
		p.idle = p.idle[:n]
		p.mu.Unlock()
		w <- c
		return
	}
	p.wg.Add(1)
	p.mu.Unlock()
	go p.work(c)
}

func (p *pool) work(c *Conn) {
	defer p.wg.Done()
	w := make(chan *Conn, 1)
	for c != nil {
		p.run(c)
		p.mu.Lock()
		if p.closing || len(p.idle) >= p.keep {
			p.mu.Unlock()
			return
		}
		p.idle = append(p.idle, w)
		p.mu.Unlock()
		c = <-w
	}
}

// close has all workers end once they are idle, and waits for them. Work may
// still be submitted meanwhile, by workers only.
func (p *pool) close() {
	p.mu.Lock()
	p.closing = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, w := range idle {
		close(w)
	}
	p.wg.Wait()
}
