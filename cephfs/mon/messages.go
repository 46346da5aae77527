package mon

import (
	"fmt"
	"syscall"

	"github.com/google/uuid"

	"capstan/cephfs/denc"
	"capstan/cephfs/msgr"
)

// Types of messages (ceph/ceph src/include/ceph_fs.h, CEPH_MSG_*, and
// src/msg/Message.h, MSG_*).
const (
	msgMonMap          = 4
	msgMDSMap          = 21
	msgMonSubscribe    = 15
	msgMonSubscribeAck = 16
	msgAuth            = 17
	msgAuthReply       = 18
	msgGetVersion      = 19
	msgGetVersionReply = 20
	msgOSDMap          = 41
	msgFSMap           = 45
	msgMonCommand      = 50
	msgMonCommandAck   = 51
	msgConfig          = 62
	msgCommand         = 97
	msgCommandReply    = 98
	msgFSMapUser       = 103
	msgMgrMap          = 0x704
	msgMgrCommand      = 0x709
	msgMgrCommandReply = 0x70a
)

// paxosHeader begins the messages to the monitors' services
// (PaxosServiceMessage).
func paxosHeader(e *denc.Encoder) {
	e.Uint64(0)      // version
	e.Uint16(0xffff) // session_mon, of old: none
	e.Uint64(0)      // session_mon_tid
}

func skipPaxosHeader(d *denc.Decoder) { d.Skip("paxos", 8+2+8) }

// want is an entry of MMonSubscribe (ceph_mon_subscribe_item).
type want struct {
	start uint64
	once  bool
}

const subscribeOnce = 1 // CEPH_SUBSCRIBE_ONETIME

func encodeSubscribe(what []What, wants map[What]want, host string) *msgr.Message {
	var e denc.Encoder
	e.Count(len(what))
	for _, w := range what {
		e.String(string(w))
		e.Uint64(wants[w].start)
		if wants[w].once {
			e.Uint8(subscribeOnce)
		} else {
			e.Uint8(0)
		}
	}
	e.String(host)
	return &msgr.Message{Type: msgMonSubscribe, Version: 3, Compat: 1, Front: e.Data()}
}

func encodeAuth(payload []byte, method, monmapEpoch uint32) *msgr.Message {
	var e denc.Encoder
	paxosHeader(&e)
	e.Uint32(method)
	e.Bytes(payload)
	e.Uint32(monmapEpoch)
	return &msgr.Message{Type: msgAuth, Version: 1, Front: e.Data()}
}

// authReply is MAuthReply.
type authReply struct {
	result  int32
	payload []byte
	text    string
}

func decodeAuthReply(front []byte) (authReply, error) {
	d := denc.NewDecoder(front)
	d.Uint32("auth_reply.protocol")
	r := authReply{result: d.Int32("auth_reply.result")}
	d.Uint64("auth_reply.global_id")
	r.payload = d.Bytes("auth_reply.payload")
	r.text = d.String("auth_reply.text")
	return r, d.Err()
}

func encodeGetVersion(handle uint64, what What) *msgr.Message {
	var e denc.Encoder
	e.Uint64(handle)
	e.String(string(what))
	return &msgr.Message{Type: msgGetVersion, Version: 1, Compat: 1, Tid: handle, Front: e.Data()}
}

// versionReply is MMonGetVersionReply.
type versionReply struct {
	handle         uint64
	newest, oldest uint64
}

func decodeVersionReply(front []byte) (versionReply, error) {
	d := denc.NewDecoder(front)
	r := versionReply{handle: d.Uint64("version.handle"), newest: d.Uint64("version.newest")}
	if d.Remaining() > 0 {
		r.oldest = d.Uint64("version.oldest")
	}
	return r, d.Err()
}

func encodeMonCommand(tid uint64, fsid uuid.UUID, text string, input []byte) *msgr.Message {
	var e denc.Encoder
	paxosHeader(&e)
	encodeCommandBody(&e, fsid, text)
	return commandMessage(&msgr.Message{Type: msgMonCommand, Version: 1, Tid: tid, Front: e.Data()}, input)
}

// encodeDirectCommand is MCommand or MMgrCommand.
func encodeDirectCommand(typ uint16, tid uint64, fsid uuid.UUID, text string, input []byte) *msgr.Message {
	var e denc.Encoder
	encodeCommandBody(&e, fsid, text)
	return commandMessage(&msgr.Message{Type: typ, Version: 1, Tid: tid, Front: e.Data()}, input)
}

func encodeCommandBody(e *denc.Encoder, fsid uuid.UUID, text string) {
	e.FSID(fsid)
	e.Count(1)
	e.String(text)
}

func commandMessage(m *msgr.Message, input []byte) *msgr.Message {
	if len(input) > 0 {
		m.Data = [][]byte{input}
	}
	return m
}

// commandReply is the answer to a command of either kind.
type commandReply struct {
	result int32
	status string
}

// decodeCommandReply reads MMonCommandAck, or MCommandReply and
// MMgrCommandReply, which have no header.
func decodeCommandReply(typ uint16, front []byte) (commandReply, error) {
	d := denc.NewDecoder(front)
	if typ == msgMonCommandAck {
		skipPaxosHeader(d)
	}
	r := commandReply{d.Int32("command.result"), d.String("command.status")}
	return r, d.Err()
}

// epochOf is the newest epoch in a message with a map, and the cluster it is
// of if it says so.
func epochOf(typ uint16, front []byte) (epoch uint64, fsid uuid.UUID, err error) {
	d := denc.NewDecoder(front)
	switch typ {
	case msgOSDMap:
		fsid = d.FSID("osd_map.fsid")
		for _, part := range []string{"osd_map.incremental", "osd_map.full"} {
			for range d.Count(part, 8) {
				epoch = max(epoch, uint64(d.Uint32(part)))
				d.Bytes(part)
			}
		}
	case msgMDSMap:
		fsid = d.FSID("mds_map.fsid")
		epoch = uint64(d.Uint32("mds_map.epoch"))
	case msgFSMap, msgFSMapUser:
		epoch = uint64(d.Uint32("fs_map.epoch"))
	case msgMgrMap:
		s := d.Struct("mgr_map", mgrMapVersion)
		epoch = uint64(d.Uint32("epoch"))
		d.End(s)
	}
	return epoch, fsid, d.Err()
}

// errno turns a result, a negative errno of Linux, into an errno.
func errno(result int32) syscall.Errno {
	if result < 0 && result > -4096 {
		return syscall.Errno(-result)
	}
	return syscall.EPROTO
}

// DecodeConfig reads the settings in a message of [WhatConfig] (MConfig).
func DecodeConfig(front []byte) (map[string]string, error) {
	d := denc.NewDecoder(front)
	n := d.Count("config", 8)
	settings := make(map[string]string, n)
	for range n {
		k := d.String("config.key")
		settings[k] = d.String("config.value")
	}
	return settings, d.Err()
}

// decodeMonMapMessage reads MMonMap.
func decodeMonMapMessage(front []byte) (*MonMap, error) {
	d := denc.NewDecoder(front)
	b := d.Bytes("mon_map")
	if err := d.Err(); err != nil {
		return nil, err
	}
	m, err := DecodeMonMap(b)
	if err != nil {
		return nil, fmt.Errorf("monmap: %w", err)
	}
	return m, nil
}
