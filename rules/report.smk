# Metrics + references → tables → claims → report.


rule table:
    input:
        measured=lambda wildcards: PLAN.table_inputs(wildcards.paper, wildcards.table),
        reference="references/{paper}/{table}.csv",
        paper="references/{paper}/paper.yaml",
        lock="envs/requirements.lock",
        sources=lambda wildcards: PLAN.table_sources(wildcards.paper, wildcards.table),
        code=stage_sources("table.py"),
        template="src/pretrieve/reporting/templates/table.html.j2",
        schema="schemas/references.schema.yaml",
    output:
        csv=report(
            f"{ROOT}/tables/{{paper}}/{{table}}.csv",
            caption="../docs/captions/table.rst",
            category="Tables",
            subcategory="{paper}",
        ),
        md=f"{ROOT}/tables/{{paper}}/{{table}}.md",
        html=f"{ROOT}/tables/{{paper}}/{{table}}.html",
        manifest=f"{ROOT}/tables/{{paper}}/{{table}}.manifest.json",
    log:
        f"{ROOT}/logs/table/{{paper}}/{{table}}.log",
    benchmark:
        f"{ROOT}/benchmarks/table/{{paper}}-{{table}}.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        root=subpath(output.csv, ancestor=3),
        scale=config["scale"],
        seeds=SEEDS,
        roles=[f"{role}={name}" for role, name in PLAN.scale["roles"].items()],
        trained_on=[f"{name}={PLAN.trained_on(name)}" for name in config["datasets"]],
        encoders=list(config["encoders"]),
        recipes=list(config["recipes"]),
        sizes=[
            f"{name}={','.join(options['sizes'])}"
            for name, options in config["datasets"].items()
        ],
        metrics=[
            f"{name}={','.join(PLAN.metrics_of(name))}" for name in config["datasets"]
        ],
        kinds=[f"{name}={kind}" for name, kind in PLAN.kinds.items()],
        hash=config_hash(config),
    message:
        "Writing {wildcards.paper} {wildcards.table}"
    shell:
        "python workflow_scripts/table.py --paper {wildcards.paper} --table {wildcards.table}"
        " --reference {input.reference} --paper-file {input.paper} --results {params.root} --scale {params.scale}"
        " --seeds {params.seeds} --roles {params.roles} --trained-on {params.trained_on} --encoders {params.encoders}"
        " --recipes {params.recipes} --sizes {params.sizes} --metrics {params.metrics} --kinds {params.kinds} --config-hash {params.hash} --lock {input.lock} --sources {input.sources}"
        " --csv {output.csv} --md {output.md} --html {output.html} --manifest {output.manifest} --log {log}"


rule claims:
    input:
        tables=TABLE_FILES,
        figures=FIGURE_POINTS,
        claims="references/claims.yaml",
        code=stage_sources("claims.py"),
    output:
        csv=report(
            f"{ROOT}/claims.csv",
            caption="../docs/captions/claims.rst",
            category="Claims",
        ),
        groups=f"{ROOT}/claims.groups.csv",
        md=f"{ROOT}/claims.md",
    log:
        f"{ROOT}/logs/claims.log",
    benchmark:
        f"{ROOT}/benchmarks/claims/all.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        root=subpath(output.csv, parent=True),
        scale=config["scale"],
        seeds=SEEDS,
    message:
        "Judging the papers' claims by what was measured"
    shell:
        "python workflow_scripts/claims.py --claims {input.claims} --results {params.root} --scale {params.scale}"
        " --seeds {params.seeds} --csv {output.csv} --groups {output.groups} --md {output.md} --log {log}"


# Learning curves and costs stand beside what the tables were made of: they are there when the tables are.
rule report:
    input:
        tables=TABLE_FILES,
        manifests=[file.replace(".csv", ".manifest.json") for file in TABLE_FILES],
        figures=PLAN.figure_files(),
        claims=[rules.claims.output.csv, rules.claims.output.groups],
        references=sorted(f"references/{name}.csv" for name in config["tables"]),
        code=stage_sources("report.py"),
        templates=[
            f"src/pretrieve/reporting/templates/report.{kind}"
            for kind in ("html.j2", "css", "js")
        ],
    output:
        html=f"{ROOT}/report.html",
    log:
        f"{ROOT}/logs/report.log",
    benchmark:
        f"{ROOT}/benchmarks/report/all.tsv"
    conda:
        "../envs/cpu.yaml"
    params:
        config=as_argument(
            {
                key: value
                for key, value in config.items()
                if key not in ("mirror", "checkpoint_seconds")
            }
        ),
    message:
        "Writing the report"
    shell:
        "python workflow_scripts/report.py --config {params.config} --html {output.html} --log {log}"
