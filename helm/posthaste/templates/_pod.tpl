{{/* What every pod is allowed: next to nothing. */}}
{{- define "posthaste.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* What every container is allowed. */}}
{{- define "posthaste.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where a component's pods go. Takes (dict "root" $ "component" "agent" "values" .Values.agents). */}}
{{- define "posthaste.placement" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "posthaste.selector" . | nindent 8 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Where spans go and the address policy, which both programs read alike. */}}
{{- define "posthaste.policyArgs" -}}
{{- with .Values.traces.otlpEndpoint }}
- --otlp-endpoint={{ . }}
{{- end }}
{{- if .Values.addressPolicy.allowHttp }}
- --allow-http
{{- end }}
{{- range .Values.addressPolicy.allowCidrs }}
- --allow-cidr={{ . }}
{{- end }}
{{- range .Values.addressPolicy.allowPorts }}
- --allow-port={{ . }}
{{- end }}
{{- if .Values.addressPolicy.nat64 }}
- --nat64
{{- end }}
{{- end -}}

{{/* The database's URL, never written here. */}}
{{- define "posthaste.databaseEnv" -}}
- name: POSTHASTE_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ required "database.existingSecret: name a Secret with the URL of Postgres" .Values.database.existingSecret | quote }}
      key: {{ .Values.database.urlKey | quote }}
{{- end -}}

{{/* Both ask the admin port; a process that is draining is alive but not ready. */}}
{{- define "posthaste.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
{{- end -}}

{{/* The unspecified address of the pods' first family. */}}
{{- define "posthaste.any" -}}
{{- if .Values.ipv6 -}}[::]{{- else -}}0.0.0.0{{- end -}}
{{- end -}}
