package mon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"capstan/cephfs/msgr"
)

// Args are the arguments of a command by name: "prefix" and what `ceph -h`
// lists for it. Values are strings, integers, floats (a float64, even if it is
// whole, where Ceph wants a float), booleans and lists of strings.
type Args map[string]any

// Command is a command to a daemon.
type Command struct {
	// Args must have a "prefix". Unless they have a "format", the output is
	// asked for as JSON; an empty format asks for text.
	Args Args
	// Input is what some commands take besides their arguments, such as
	// a keyring or a CRUSH map. It is the caller's again when the command
	// returns, also if its context ended.
	Input []byte
	// Repeatable lets the command be put again when a connection breaks before
	// the answer. Commands known to only read are so in any case.
	Repeatable bool
}

// Result is the answer to a command that succeeded.
type Result struct {
	Output []byte // what goes to standard output with the ceph tool
	Status string // what goes to standard error
}

// Decode reads JSON output into v.
func (r *Result) Decode(v any) error {
	if err := json.Unmarshal(r.Output, v); err != nil {
		return fmt.Errorf("mon: output of a command: %w", err)
	}
	return nil
}

func (cmd *Command) prefix() string {
	p, _ := cmd.Args["prefix"].(string)
	return p
}

// text is the command as it is sent.
func (cmd *Command) text() (string, error) {
	if cmd.prefix() == "" {
		return "", fmt.Errorf("mon: command without a prefix")
	}
	args := maps.Clone(cmd.Args)
	if f, ok := args["format"]; !ok {
		args["format"] = "json"
	} else if f == "" {
		delete(args, "format")
	}
	for name, v := range args {
		// Ceph tells 1 from 1.0, encoding/json does not.
		if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			args[name] = json.RawMessage(strconv.FormatFloat(f, 'f', 1, 64))
		}
	}
	b, err := json.Marshal(args)
	if err != nil {
		return "", fmt.Errorf("mon: command %q: %w", cmd.prefix(), err)
	}
	return string(b), nil
}

// reads are the last words of commands that change nothing.
var reads = map[string]bool{
	"status": true, "health": true, "detail": true, "df": true, "fsid": true, "versions": true, "version": true, "features": true,
	"quorum_status": true, "mon_status": true, "dump": true, "ls": true, "list": true, "stat": true, "stats": true, "tree": true, "find": true,
	"metadata": true, "map": true, "get": true, "lspools": true, "get-key": true, "print-key": true, "print_key": true, "exists": true,
	"dump_json": true, "dump_stuck": true, "info": true, "getpath": true, "getmap": true, "getmaxosd": true, "getcrushmap": true, "services": true,
	"time-sync-status": true, "last": true, "last-stat": true, "show": true, "report": true, "ls-by-pool": true, "ls-by-osd": true, "ls-by-primary": true,
	"count-metadata": true, "numa-status": true, "blocked-by": true, "perf": true, "get_command_descriptions": true,
}

// repeatable reports whether the command may be carried out twice.
func (cmd *Command) repeatable() bool {
	p := cmd.prefix()
	return cmd.Repeatable || reads[p[strings.LastIndexByte(p, ' ')+1:]]
}

// pending is a command or a question under way.
type pending struct {
	message func() *msgr.Message // makes it anew for each time it is sent
	again   bool                 // may be sent again
	sent    bool
	target  string
	prefix  string
	done    chan struct{} // closed when the below is set

	result Result
	newest uint64
	oldest uint64
	err    error
}

// finish ends p, which its table must not hold any more.
func (p *pending) finish(err error) {
	p.err = err
	close(p.done)
}

// Command has the monitors carry out a command and waits for the answer. An
// error answer is a *[CommandError].
func (c *Client) Command(ctx context.Context, cmd Command) (*Result, error) {
	text, err := cmd.text()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	p, tid, err := c.commandLocked(&cmd, text)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := c.wait(ctx, c.commands, tid, p); err != nil {
		return nil, err
	}
	return &p.result, nil
}

// commandLocked enters a command and sends it if there is a monitor.
func (c *Client) commandLocked(cmd *Command, text string) (p *pending, tid uint64, err error) {
	c.tid++
	tid = c.tid
	input := bytes.Clone(cmd.Input) // it may still be queued when the caller's wait has ended
	p = &pending{again: cmd.repeatable(), target: "mon", prefix: cmd.prefix(), done: make(chan struct{})}
	p.message = func() *msgr.Message { return encodeMonCommand(tid, c.fsidLocked(), text, input) }
	return p, tid, c.submitLocked(c.commands, tid, p)
}

// Version asks for the newest and the oldest epoch that the monitors have of
// a map, as of now: "osdmap", "mdsmap", "fsmap", "mgrmap", "monmap".
func (c *Client) Version(ctx context.Context, what What) (newest, oldest uint64, err error) {
	p := &pending{again: true, target: "mon", prefix: string(what), done: make(chan struct{})}
	c.mu.Lock()
	c.tid++
	tid := c.tid
	p.message = func() *msgr.Message { return encodeGetVersion(tid, what) }
	err = c.submitLocked(c.versions, tid, p)
	c.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	if err := c.wait(ctx, c.versions, tid, p); err != nil {
		return 0, 0, err
	}
	return p.newest, p.oldest, nil
}

// submitLocked enters p and sends it if there is a monitor.
func (c *Client) submitLocked(table map[uint64]*pending, tid uint64, p *pending) error {
	if c.closed {
		return ErrClosed
	}
	if c.hopeless != nil && c.active == nil {
		return c.hopeless
	}
	table[tid] = p
	c.sendLocked(p)
	return nil
}

// sendLocked sends p once the monitor has said what cluster it is of.
func (c *Client) sendLocked(p *pending) {
	if c.active == nil || c.monmap == nil {
		return
	}
	// A connection that is closed already took nothing: then p waits for the
	// next monitor, and its outcome is known.
	p.sent = c.active.conn.Send(p.message()) == nil
}

// wait waits for p, and takes it out of its table if ctx ends first.
func (c *Client) wait(ctx context.Context, table map[uint64]*pending, tid uint64, p *pending) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-p.done:
		return p.err
	default:
	}
	delete(table, tid)
	if c.active == nil {
		return waitError(ctx, c.lastErr)
	}
	return context.Cause(ctx)
}

// resendLocked sends what waits for a monitor.
func (c *Client) resendLocked() {
	for _, table := range []map[uint64]*pending{c.versions, c.commands} {
		for _, tid := range sortedKeys(table) {
			if !table[tid].sent {
				c.sendLocked(table[tid])
			}
		}
	}
}

// sessionLostLocked decides what becomes of what was under way.
func (c *Client) sessionLostLocked() {
	for _, table := range []map[uint64]*pending{c.versions, c.commands} {
		for tid, p := range table {
			switch {
			case !p.sent:
			case p.again:
				p.sent = false
			default:
				delete(table, tid)
				p.finish(fmt.Errorf("%s: %q: %w", p.target, p.prefix, ErrOutcomeUnknown))
			}
		}
	}
}

// failAllLocked ends all waits.
func (c *Client) failAllLocked(err error) {
	for _, table := range []map[uint64]*pending{c.versions, c.commands} {
		for tid, p := range table {
			delete(table, tid)
			p.finish(err)
		}
	}
}

func (c *Client) commandReplyLocked(m *msgr.Message) error {
	r, err := decodeCommandReply(m.Type, m.Front)
	if err != nil {
		return err
	}
	p := c.commands[m.Tid]
	if p == nil {
		return nil // given up
	}
	delete(c.commands, m.Tid)
	p.answer(r, m)
	return nil
}

// answer ends p with a daemon's answer.
func (p *pending) answer(r commandReply, m *msgr.Message) {
	if r.result < 0 {
		p.finish(&CommandError{Target: p.target, Prefix: p.prefix, Errno: errno(r.result), Status: r.status})
		return
	}
	p.result = Result{Status: r.status, Output: flatten(m.Data)}
	p.finish(nil)
}

func (c *Client) versionReplyLocked(m *msgr.Message) error {
	r, err := decodeVersionReply(m.Front)
	if err != nil {
		return err
	}
	if p := c.versions[r.handle]; p != nil {
		delete(c.versions, r.handle)
		p.newest, p.oldest = r.newest, r.oldest
		p.finish(nil)
	}
	return nil
}

func flatten(pieces [][]byte) []byte {
	if len(pieces) == 1 {
		return pieces[0]
	}
	var b []byte
	for _, p := range pieces {
		b = append(b, p...)
	}
	return b
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
